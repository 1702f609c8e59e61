"""`openforge resume`: what is needed to go on with a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from services.dev.settings_file import SETTINGS
from services.dev.stack import is_running
from shared.config import Config, RunConfig, resolve
from shared.errors import ConfigError
from shared.ids import check_id


def read_settings(root: Path, run_id: str, sets: Sequence[str]) -> Config:
    """The settings of a run that does not run now, with some of them changed.

    Raises:
        ConfigError: there is no such run, it is under way, or a change is none that is known.
    """
    folder = root / check_id(run_id, "run id")
    if not (folder / SETTINGS).exists():
        known = ", ".join(sorted(f.parent.name for f in root.glob(f"*/{SETTINGS}"))[-5:]) or "none"
        raise ConfigError(f"{folder}: no run to go on with; the newest under {root}: {known} (--root names another folder)")
    if is_running(folder):
        raise ConfigError(f"run {run_id} is under way; end it there with Ctrl-C first")
    return resolve(folder / SETTINGS, sets).config


def go_on_with(run: RunConfig) -> str:
    """How a person goes on with a run."""
    return f"To go on from where it stands: openforge resume {run.id} --root {run.root}"
