"""What making tasks needs of this machine, beyond what every run needs."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable

from services.synth.books import Books
from services.synth.domains import FAMILIES
from services.synth.families import wanted
from shared.config import Config
from shared.errors import ConfigError

_PYTHON = "/usr/bin/python3"
"""Tasks are run by it in local sandboxes."""
_S = 20.0


def check_images(config: Config) -> None:
    """Looks whether tasks that are made with a Dockerfile, as all are but those of a generator of one's own, can be tried where
    they are to be.

    Raises:
        ConfigError: they cannot.
    """
    if config.orchestrator.backend == "kubernetes" and _domains(config):
        raise ConfigError(
            "a cluster builds no images, and tasks that are made here have Dockerfiles: make them with "
            "--set orchestrator.backend=docker (or local), then build and push their images for the cluster with "
            "scripts/task-images.sh"
        )


def check_programs(config: Config) -> None:
    """Looks whether local sandboxes have what tasks of the domains need to be tried; without it they would be turned down for
    what is not their fault.

    Raises:
        ConfigError: something is missing; the text says how to get it, or how to go without.
    """
    if config.orchestrator.backend != "local" or "computer" not in _domains(config):
        return
    missing = [name for name, there in _OF_DESKTOPS.items() if not there()]
    if missing:
        others = ", ".join(f'"{domain}"' for domain in config.synth.domains if domain != "computer") or '"claw"'
        raise ConfigError(
            f"tasks of the domain computer are tried on a desktop, and this machine lacks {', '.join(missing)}: "
            f"apt-get install -y xvfb xdotool python3-tk, or leave them out: --set 'synth.domains=[{others}]'"
        )


def check_place(config: Config) -> None:
    """Looks whether accepted tasks can be put where they belong.

    Raises:
        ConfigError: they cannot.
    """
    folder = Books(config).accepted
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise ConfigError(f"synth.to: {folder}: {e.strerror}; pass --set synth.to=FOLDER for one that can be written") from None


def _domains(config: Config) -> set[str]:
    """Those that tasks will be made of."""
    if config.synth.generator == "families":
        return {family.domain for family in wanted(FAMILIES, config.synth)}
    return set(config.synth.domains) if config.synth.generator == "models" else set()


def _has_tk() -> bool:
    try:
        return subprocess.run([_PYTHON, "-c", "import tkinter"], capture_output=True, timeout=_S, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _program(name: str) -> Callable[[], bool]:
    return lambda: shutil.which(name, path="/usr/local/bin:/usr/bin:/bin") is not None


_OF_DESKTOPS: dict[str, Callable[[], bool]] = {
    "Xvfb": _program("Xvfb"), "xdotool": _program("xdotool"), f"tkinter of {_PYTHON}": _has_tk,
}  # fmt: skip
