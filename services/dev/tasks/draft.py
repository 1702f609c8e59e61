"""A task on its way from another set's format to a folder. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from shared.errors import TaskError

_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")
NO_REWARD = """#!/bin/sh
# No reward is better than a wrong one: what judges this task is not here.
echo "this task needs {needs}; see metadata.needs in task.toml" >&2
exit 1
"""


@dataclass(frozen=True, slots=True)
class Draft:
    """What a task folder will be.

    Attributes:
        name: of the folder.
        toml: content of task.toml; None leaves the copied one.
        texts: files to write, by path in the folder.
        copies: files and folders of the source, by path in the folder; an empty path is the folder itself.
        seed: script of the source that makes the working folder's content, given the folder as its argument.
        changes: what is not as the source has it, for a person.
    """

    name: str
    toml: dict[str, Any] | None = None
    texts: dict[str, str] = field(default_factory=dict)
    copies: dict[str, Path] = field(default_factory=dict)
    seed: Path | None = None
    changes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Item:
    """One task of a source: where it stands, for a person, and what makes the draft of it.

    `make` raises TaskError when the item cannot be used.
    """

    place: str
    make: Callable[[], Draft]


class Format(Protocol):
    """One file of `formats`: how a kind of set is recognised and read."""

    ABOUT: str
    """The format in a line."""

    def fits(self, source: Path) -> bool:
        """Whether a source looks like this format."""
        ...

    def items(self, source: Path) -> Iterator[Item]:
        """The tasks of a source, in order."""
        ...


def folder_name(text: str) -> str:
    """A name for a folder made of any text.

    Raises:
        TaskError: nothing is left of it.
    """
    name = _UNFIT.sub("-", text).strip("-.")[:120]
    if not name:
        raise TaskError(f"{text!r} gives no name for a folder")
    return name


def unjudged(needs: list[str]) -> str:
    """tests/test.sh of a task whose judge is not here: it leaves no reward."""
    said = " and ".join(needs).replace('"', "'").replace("$", "").replace("`", "'").replace("\\", "")
    return NO_REWARD.format(needs=said)


def inner_path(text: Any, what: str) -> str:
    """A path inside a folder.

    Raises:
        TaskError: it is no text, absolute, or leads out.
    """
    path = PurePosixPath(text) if isinstance(text, str) and text else None
    if path is None or path.is_absolute() or ".." in path.parts or not path.parts:
        raise TaskError(f"{what}: {text!r} is not a path inside a folder")
    return str(path)


def texts_of(row: Any, *names: str) -> list[str]:
    """Fields of a row that must be there and not be empty.

    Raises:
        TaskError: the row is no table, or a field is missing or no text.
    """
    if not isinstance(row, dict):
        raise TaskError(f"expected a table, got {type(row).__name__}")
    for name in names:
        if not isinstance(row.get(name), str) or not row[name].strip():
            raise TaskError(f"{name}: expected a text that is not empty")
    return [row[name] for name in names]
