"""What is generated: whole pages, and tables between `<!-- begin NAME -->` and `<!-- end NAME -->` of other pages."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from scripts.docs import commands, configuration, events, tables
from services.dev import rights_table

DOCS = Path(__file__).parents[2] / "docs"

WHOLE: dict[str, Callable[[], str]] = {
    "configuration.md": configuration.render,
    "cli.md": commands.render,
    "events.md": events.render,
}
PARTS: dict[str, dict[str, Callable[[], str]]] = {
    "observability.md": {"metrics": tables.metrics},
    "security.md": {"rights": rights_table.tables},
    "troubleshooting.md": {"reasons": tables.reasons},
}


def rendered() -> dict[str, str]:
    """Every page that has something generated, as it has to be, by its name in docs/."""
    pages = {name: render() for name, render in WHOLE.items()}
    for name, parts in PARTS.items():
        text = (DOCS / name).read_text(encoding="utf-8")
        for part, render in parts.items():
            text = filled(text, part, render())
        pages[name] = text
    return pages


def filled(page: str, part: str, text: str) -> str:
    """A page with `text` between the marks of a part.

    Raises:
        ValueError: the page has not exactly one such part.
    """
    marks = re.compile(rf"(<!-- begin {part} -->\n\n).*?(\n<!-- end {part} -->)", re.S)
    page, found = marks.subn(lambda mark: f"{mark[1]}{text.strip()}\n{mark[2]}", page)
    if found != 1:
        raise ValueError(f"the page has {found} parts `<!-- begin {part} -->` to `<!-- end {part} -->`; one is needed")
    return page
