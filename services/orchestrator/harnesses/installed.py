"""Where installed programs lie, and what a sandbox has to show so that they run.

    $OPENFORGE_CACHE (~/.cache/openforge)/harness/<name>-<version>/    a prefix of npm, or a Python environment
    .../harness/node-<version>/                                        Node, for the former

A file `installed` in a folder says that its installation came to its end.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from services.orchestrator.harnesses.adapter import Npm, Pip, Python
from services.orchestrator.harnesses.layout import HARNESS, NODE_BIN, PYTHON
from services.orchestrator.sandbox import PATH
from shared.errors import HarnessError

NODE = "24.19.0"
MARK = "installed"
Install = Npm | Pip | Python | None


@dataclass(frozen=True, slots=True)
class Found:
    """A program that can be started.

    Attributes:
        program: absolute path.
        read_only: folders of the machine that it is made of.
        path: its PATH, None for the sandbox's own.
    """

    program: str
    read_only: tuple[Path, ...] = ()
    path: str | None = None


def cache_folder() -> Path:
    """Where programs are installed."""
    return Path(os.environ.get("OPENFORGE_CACHE") or "~/.cache/openforge").expanduser() / "harness"


def place(name: str, install: Npm | Pip) -> Path:
    """Folder of a harness."""
    return cache_folder() / f"{name}-{install.version}"


def node_place() -> Path:
    """Folder of Node; its programs are in `node/bin` there."""
    return cache_folder() / f"node-{NODE}"


def is_installed(folder: Path) -> bool:
    """Whether an installation came to its end."""
    return (folder / MARK).exists()


def find(name: str, install: Install, program: str) -> Found:
    """The program that an adapter's argv begins with.

    Raises:
        HarnessError: it is not installed; the text names the command that installs it.
    """
    match install:
        case Npm():
            return _npm(_installed(name, install), program)
        case Pip():
            return _pip(_installed(name, install), program)
        case Python():
            return Found(*python())
    found = program if Path(program).is_absolute() else shutil.which(program, path=PATH)
    if not found or not Path(found).exists():
        raise HarnessError(f"{program} is not on this machine, and the adapter {name!r} does not say how to install it")
    return Found(found)


def find_in_image(name: str, install: Install, program: str) -> Found:
    """The program that an adapter's argv begins with, as a harness image brings it.

    Raises:
        HarnessError: the adapter does not say how to install it, nor where it is.
    """
    match install:
        case Npm():
            return Found(f"{HARNESS}/node_modules/.bin/{program}", path=f"{NODE_BIN}:{PATH}")
        case Pip():
            return Found(f"{HARNESS}/bin/{program}")
        case Python():
            return Found(PYTHON)
    if not Path(program).is_absolute():
        raise HarnessError(
            f"the adapter {name!r} does not say how to install {program}; in a container it must be in the task's image, "
            "and argv must begin with its absolute path there"
        )
    return Found(program)


def apt_command(debian: Mapping[str, str]) -> str:
    """The command that installs what is missing of an adapter's `debian` programs; empty if nothing is."""
    packages = sorted({package for program, package in debian.items() if not shutil.which(program, path=PATH)})
    return f"apt-get install -y --no-install-recommends {' '.join(packages)}" if packages else ""


@cache
def python() -> tuple[str, tuple[Path, ...]]:
    """A Python that sandboxes have anyway, else the one that runs this; and the folders that it is made of."""
    found = shutil.which("python3", path=PATH)
    if found and Path(found).resolve().is_relative_to("/usr"):
        return found, ()
    return str(Path(sys.executable).resolve()), (Path(sys.base_prefix),)


def _installed(name: str, install: Npm | Pip) -> Path:
    folder = place(name, install)
    if not is_installed(folder):
        raise HarnessError(
            f"{install.package} {install.version} is not installed in {folder}; run openforge harness install {name}"
        )
    return folder


def _npm(folder: Path, program: str) -> Found:
    node = node_place()
    return Found(f"{folder}/node_modules/.bin/{program}", (folder, node), f"{node}/node/bin:{PATH}")


def _pip(folder: Path, program: str) -> Found:
    return Found(f"{folder}/bin/{program}", (folder, _base_prefix(folder)))


def _base_prefix(environment: Path) -> Path:
    """Installation that an environment's Python belongs to: `home` of pyvenv.cfg is its bin folder."""
    for line in (environment / "pyvenv.cfg").read_text().splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "home":
            return Path(value.strip()).resolve().parent
    raise HarnessError(f"{environment} is no virtual environment (pyvenv.cfg names no home); remove it and install again")
