"""Markdown that all generators write."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; bars within cells are escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(escaped(cell) for cell in line)} |\n" for line in lines)


def escaped(cell: str) -> str:
    """A text as a cell: on one line, bars escaped."""
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(cell.split()))


def summary(kind: type) -> str:
    """A class's own docstring, without what it says of its attributes."""
    return (inspect.getdoc(kind) or "").split("\nAttributes:")[0].strip()


def meanings(kind: type) -> dict[str, str]:
    """Field meanings from the `Attributes:` parts of a class and its bases; the class itself wins."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        doc = inspect.cleandoc(base.__doc__ or "").partition("Attributes:\n")[2]
        found.update({name: " ".join(text.split()) for name, text in re.findall(r"^    (\w+): (.*(?:\n      .*)*)", doc, re.M)})
    return found
