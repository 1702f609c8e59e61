"""Which kind of sandbox this machine can give, found out once, by trying."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from services.orchestrator.backends.spawner import ROOT
from services.orchestrator.cgroups import find_groups, said
from services.orchestrator.sandbox import PATH, Isolation, Sandbox
from shared.config import OrchestratorConfig
from shared.errors import SandboxError

log = logging.getLogger(__name__)

_OWN_NETWORK = """
import os, sys
sys.path.insert(0, sys.argv[1])
from services.orchestrator.runner.system import own_network
own_network()
os.execv(sys.argv[2], sys.argv[2:])
"""
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
    isolation = replace(_kind(config, root), groups=find_groups())
    if not isolation.network:
        log.warning("rollouts reach everything that listens on this machine, and the internet if it has one: %s", INSTALL)
    isolation.groups.sweep()
    log.info(said(isolation.groups, root))
    return isolation


def _kind(config: OrchestratorConfig, root: bool) -> Isolation:
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
        if text := _tried(command):
            raise SandboxError(f"bubblewrap does not work here ({text}); it needs user namespaces, or root with CAP_SYS_ADMIN")
        text = _tried([sys.executable, "-I", "-S", "-c", _OWN_NETWORK, ROOT, *command])
    if text:
        log.warning("sandboxes share this machine's network, with all that listens on it: no network of their own (%s)", text)
    return replace(isolation, network=not text)


def _tried(command: list[str]) -> str:
    """What a command that failed has said."""
    trial = ["/bin/sh", "-c", 'exec 3</dev/null; exec "$@"', "sh", *command]
    done = subprocess.run(
        trial, env={"PATH": PATH}, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TRIAL_S, check=False
    )
    said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    return said or f"exit code {done.returncode}" if done.returncode else ""


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
