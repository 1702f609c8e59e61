"""Which kind of sandbox this machine can give, found out once, by trying."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from services.orchestrator.sandbox import PATH, Isolation, Sandbox
from shared.config import OrchestratorConfig
from shared.errors import SandboxError

log = logging.getLogger(__name__)

INSTALL = "apt-get install -y bubblewrap"
_TRIAL_S = 30


def resolve_isolation(config: OrchestratorConfig, root: bool | None = None) -> Isolation:
    """The configured kind, or the best that this machine can give. Runs bubblewrap once to see whether it works here.

    Args:
        config: says which kind.
        root: whether this process is root; found out by default.

    Raises:
        SandboxError: the configured kind cannot be had; the text says why and what to do.
    """
    root = os.geteuid() == 0 if root is None else root
    match config.sandbox:
        case "bubblewrap":
            return _bubblewrap(config.uid, root)
        case "uid":
            return _uid(config.uid, root)
        case "process":
            return _process(config.uid, root)
    try:
        return _bubblewrap(config.uid, root)
    except SandboxError as e:
        log.warning("no bubblewrap sandbox: %s", e)
    return _uid(config.uid, root) if root else _process(config.uid, root)


def _bubblewrap(uid: int, root: bool) -> Isolation:
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        raise SandboxError(f"bubblewrap is not installed: {INSTALL}")
    isolation = Isolation("bubblewrap", root, uid, bwrap, _setpriv() if root else "", etc="/etc")
    with tempfile.TemporaryDirectory() as folder:
        for part in ("app", "agent/home", "agent/tmp", "logs/agent", "logs/artifacts"):
            Path(folder, part).mkdir(parents=True)
        command = Sandbox(isolation, Path(folder), "/app").command("agent", ["/bin/true"])
        trial = ["/bin/sh", "-c", 'exec 3>/dev/null; exec "$@"', "sh", *command]
        done = subprocess.run(
            trial, env={"PATH": PATH}, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TRIAL_S, check=False
        )
    if done.returncode:
        text = done.stderr.decode(errors="replace").strip()
        raise SandboxError(f"bubblewrap does not work here ({text}); it needs user namespaces, or root with CAP_SYS_ADMIN")
    return isolation


def _uid(uid: int, root: bool) -> Isolation:
    if not root:
        raise SandboxError("orchestrator.sandbox = 'uid' needs root, to become another user; use 'bubblewrap'")
    return Isolation("uid", root, uid, setpriv=_setpriv())


def _process(uid: int, root: bool) -> Isolation:
    if root:
        raise SandboxError(
            "orchestrator.sandbox = 'process' would run the model's commands as root; "
            f"use 'bubblewrap' ({INSTALL}) or 'uid', or start as another user"
        )
    log.warning(
        "rollouts run as plain processes of this user: whatever the model decides to do, it does with your rights (better: %s)",
        INSTALL,
    )
    return Isolation("process", root, uid)


def _setpriv() -> str:
    setpriv = shutil.which("setpriv", path=PATH)
    if setpriv is None:
        raise SandboxError(
            "setpriv is missing, which lets rollouts run as another user than root: apt-get install -y util-linux"
        )
    return setpriv
