"""`openforge harness`: which programs rollouts can be run in, and their installation."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table

from services.dev.install import install
from services.orchestrator.harnesses.adapter import Adapter, Npm, Pip, load
from services.orchestrator.harnesses.installed import apt_command, is_installed, place
from services.orchestrator.harnesses.library import adapter_file, adapter_files


def install_harnesses(names: list[str], folder: str) -> None:
    """Installs programs one after the other; progress goes to standard error.

    Args:
        names: of harnesses.
        folder: a user's own adapters; empty for none.

    Raises:
        HarnessError: there is no such harness, or it could not be installed.
    """
    for file in [adapter_file(name, folder) for name in names]:
        install(file, load(file), _say)


def list_harnesses(folder: str, console: Console) -> None:
    """Prints a table of all harnesses.

    Raises:
        HarnessError: an adapter is not valid.
    """
    table = Table(caption="openforge harness install NAME")
    for column in ("harness", "program", "version", "speaks", "state"):
        table.add_column(column)
    for name, file in adapter_files(folder).items():
        adapter = load(file)
        version = adapter.install.version if isinstance(adapter.install, Npm | Pip) else ""
        table.add_row(name, adapter.about, version, adapter.api, state(name, adapter))
    console.print(table)


def state(name: str, adapter: Adapter) -> str:
    """Whether a program can be started, in words."""
    if adapter.untested:
        return f"untested: {adapter.untested}"
    match adapter.install:
        case Npm() | Pip() as wanted if not is_installed(place(name, wanted)):
            return "not installed"
        case None:
            return "installed by its user"
    command = apt_command(adapter.debian)
    return f"needs {command}" if command else "installed"


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
