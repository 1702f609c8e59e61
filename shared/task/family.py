"""What kind of task a task is."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_LAST_NUMBER = re.compile(r"[-_.]?\d+(?=\D*$)")


def family_of(name: str, metadata: Mapping[str, Any]) -> str:
    """What a task is one of: the text `metadata.family`, else its name without the last number in it."""
    said = metadata.get("family")
    return said if isinstance(said, str) and said else _LAST_NUMBER.sub("", name)


def name_and_family(folder: Path) -> tuple[str, str]:
    """Name and family of a task folder, of which nothing else is read or checked; the folder's name where it says nothing."""
    try:
        said = tomllib.loads((folder / "task.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        said = {}
    task, metadata = said.get("task"), said.get("metadata")
    name = str(task.get("name") or folder.name) if isinstance(task, dict) else folder.name
    return name, family_of(name, metadata if isinstance(metadata, dict) else {})
