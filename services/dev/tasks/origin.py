"""Where a set comes from and under which licence, as far as its own files say."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

FILE = "ORIGIN"
UNKNOWN = "unknown: the source has no licence file; find out before you publish anything made with it"
_NAMES = re.compile(r"(LICEN[CS]E|COPYING)([.-].*)?", re.IGNORECASE)
_TEXTS = (
    ("Apache-2.0", r"Apache License\s+Version 2\.0"),
    ("MIT", r"MIT License|Permission is hereby granted, free of charge"),
    ("BSD", r"Redistribution and use in source and binary forms"),
    ("CC-BY-NC-4.0", r"Attribution-NonCommercial 4\.0"),
    ("CC-BY-SA-4.0", r"Attribution-ShareAlike 4\.0"),
    ("CC-BY-4.0", r"Attribution 4\.0"),
    ("AGPL-3.0", r"GNU AFFERO GENERAL PUBLIC LICENSE"),
    ("LGPL", r"GNU LESSER GENERAL PUBLIC LICENSE"),
    ("GPL", r"GNU GENERAL PUBLIC LICENSE"),
    ("MPL-2.0", r"Mozilla Public License Version 2\.0"),
)


@dataclass(frozen=True, slots=True)
class Origin:
    """Origin of a set.

    Attributes:
        source: address and commit of its repository, or the name of its file or folder.
        licence: short name, or that it is not known.
        text: file with the licence, to copy into every task.
    """

    source: str
    licence: str
    text: Path | None = None

    def note(self, form: str, place: str, changes: tuple[str, ...] = ()) -> str:
        """What stands in a task's ORIGIN file."""
        lines = [f"source: {self.source}", f"task: {place}", f"format: {form}", f"licence: {self.licence}"]
        return "\n".join([*lines, *(f"changed: {change}" for change in changes), ""])


def origin_of(source: Path, said: str = "", licence: str = "") -> Origin:
    """Finds a set's origin out.

    Args:
        source: file or folder.
        said: what the user says that the source is; empty asks git.
        licence: what the user says that the licence is; empty looks for a licence file, in the folder and above it up to the
            top of the repository.
    """
    folder = (source if source.is_dir() else source.parent).resolve()
    top = _git(folder, "rev-parse", "--show-toplevel")
    text = _licence_file(folder, Path(top) if top else folder)
    return Origin(said or _repository(folder) or source.resolve().name, licence or _named(text), text)


def _repository(folder: Path) -> str:
    commit = _git(folder, "rev-parse", "HEAD")
    address = re.sub(r"//[^/@]*@", "//", _git(folder, "remote", "get-url", "origin"))  # no password of the user's
    return f"{address} at {commit}" if commit and "://" in address else ""


def _licence_file(folder: Path, top: Path) -> Path | None:
    for place in (folder, *folder.parents):
        found = sorted(path for path in place.iterdir() if _NAMES.fullmatch(path.name) and path.is_file())
        if found or place == top:
            return found[0] if found else None
    return None


def _named(text: Path | None) -> str:
    if text is None:
        return UNKNOWN
    start = " ".join(text.read_text(errors="replace")[:4000].split())
    found = next((name for name, pattern in _TEXTS if re.search(pattern, start)), "")
    return found or f"see {text.name}"


def _git(folder: Path, *argv: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *argv], capture_output=True, text=True, timeout=20, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
