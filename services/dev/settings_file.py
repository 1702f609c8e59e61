"""The settings that a run was started with, in its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import tomli_w

from shared.config import Config

SETTINGS = "settings.toml"
"""In a run folder: what the run was started with, before addresses and ports were filled in."""


def write_settings(config: Config, folder: Path) -> None:
    """Leaves the settings of a run in its folder, in one piece."""
    part = folder / f"{SETTINGS}.part"
    part.write_text(tomli_w.dumps(_without_none(msgspec.to_builtins(config))), encoding="utf-8")
    part.replace(folder / SETTINGS)


def _without_none(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _without_none(value) for key, value in tree.items() if value is not None}
    return tree
