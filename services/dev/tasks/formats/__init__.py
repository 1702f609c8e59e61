"""One file a format. Each has `ABOUT`, `fits(source)` and `items(source)` (see `draft.Format`)."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from services.dev.tasks.draft import Format
from services.dev.tasks.formats import claweval, harbor, markdown, mcpatlas, mind2web, osworld, webvoyager
from shared.errors import TaskError

FORMATS = {
    "harbor": cast(Format, harbor), "qwenclawbench": cast(Format, markdown), "claw-eval": cast(Format, claweval),
    "webvoyager": cast(Format, webvoyager), "mind2web": cast(Format, mind2web), "mcp-atlas": cast(Format, mcpatlas),
    "osworld": cast(Format, osworld),
}  # fmt: skip
"""In the order in which a source is compared with them."""


def format_of(source: Path, name: str = "") -> tuple[str, Format]:
    """The format of that name, or the one that a source looks like.

    Raises:
        TaskError: there is no such source or format, or the source looks like none.
    """
    if not source.exists():
        raise TaskError(f"{source}: no such file or folder")
    if name:
        if name not in FORMATS:
            raise TaskError(f"no format {name!r}; known: {', '.join(FORMATS)}")
        return name, FORMATS[name]
    for known, form in FORMATS.items():
        if form.fits(source):
            return known, form
    raise TaskError(f"{source} looks like no format that is known; name it with --from: {', '.join(FORMATS)}")
