"""Runs a set's own setup scripts, which nobody here wrote, in a sandbox without a network."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path

from services.dev.scratch import scratch
from services.orchestrator.harnesses.installed import python
from services.orchestrator.isolation import resolve_isolation
from services.orchestrator.runner.system import own_network
from services.orchestrator.sandbox import Isolation, Sandbox, copy_etc, log_folders
from shared.config import OrchestratorConfig
from shared.errors import TaskError

LIMIT_S = 60.0
MAX_BYTES = 200_000_000
"""What one task's working folder may hold."""


def seed(script: Path, workdir: str, into: Path) -> None:
    """Runs a Python script with the working folder as its argument, and takes over what it left there.

    Args:
        script: of the source.
        workdir: the folder as the script sees it.
        into: folder that gets the content; it may hold other files already.

    Raises:
        TaskError: the script failed or took too long.
        SandboxError: no sandbox can be had here.
    """
    with tempfile.TemporaryDirectory(dir=_top()) as name:
        top = Path(name)
        top.chmod(0o711)
        isolation = replace(_isolation(), etc=_etc())
        sandbox = Sandbox(isolation, top, workdir)
        _lay_out(sandbox, script, isolation)
        _run(sandbox, script.name)
        _take_over(Path(sandbox.host("agent").app), into)


@cache
def _top() -> Path:
    """Folder of all that this process makes here."""
    ends = ExitStack()
    atexit.register(ends.close)
    top = ends.enter_context(scratch())
    top.chmod(0o711)
    return top


@cache
def _isolation() -> Isolation:
    return resolve_isolation(OrchestratorConfig())


@cache
def _etc() -> str:
    """What all scripts see as /etc."""
    copy_etc(_top() / "etc")
    return str(_top() / "etc")


def _lay_out(sandbox: Sandbox, script: Path, isolation: Isolation) -> None:
    host = sandbox.host("agent")
    for path in (host.app, host.home, host.tmp, *(f"{host.logs}/{part}" for part in log_folders("agent"))):
        Path(path).mkdir(parents=True)
        if isolation.owner:
            os.chown(path, isolation.uid, isolation.uid)
    copy = Path(host.home, script.name)
    shutil.copyfile(script, copy)
    copy.chmod(0o444)


def _run(sandbox: Sandbox, script: str) -> None:
    seen, (program, read_only) = sandbox.seen("agent"), python()
    command = sandbox.command("agent", [program, f"{seen.home}/{script}", seen.app], read_only)
    argv = ["/bin/sh", "-c", 'exec 3</dev/null; exec "$@"', "sh", *command]  # the sandbox reads from 3 once it stands
    try:
        done = subprocess.run(
            argv, env=sandbox.env("agent"), cwd=sandbox.host("agent").app, stdin=subprocess.DEVNULL, capture_output=True,
            timeout=LIMIT_S, check=False, preexec_fn=own_network if sandbox.isolation.network else None,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise TaskError(f"{script} took longer than {LIMIT_S:g} s") from None
    if done.returncode:
        said = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        raise TaskError(f"{script} failed with exit code {done.returncode}: {said[-1] if said else 'it said nothing'}")


def _take_over(made: Path, into: Path) -> None:
    total = sum(path.stat().st_size for path in made.rglob("*") if path.is_file() and not path.is_symlink())
    if total > MAX_BYTES:
        raise TaskError(f"the setup script left {total} bytes, more than the {MAX_BYTES} that a task may have")
    shutil.copytree(made, into, dirs_exist_ok=True, ignore=_links)
    for path in (into, *into.rglob("*")):
        path.chmod(0o755 if path.is_dir() else path.stat().st_mode | 0o644)


def _links(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if os.path.islink(os.path.join(folder, name))]
