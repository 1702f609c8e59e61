"""WebVoyager: rows `web_name`, `id`, `ques`, `web`; tasks on the live web, judged by screenshots."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from services.dev.tasks.draft import Draft, Item, folder_name, texts_of, unjudged
from services.dev.tasks.rows import files_of, first_row, items_of

ABOUT = "WebVoyager rows (JSON lines: web_name, id, ques, web); they need the live web and a judge"
NEEDS = ["the live web", "a judge that looks at screenshots"]


def fits(source: Path) -> bool:
    """See `Format.fits`."""
    return any(_is_row(first_row(file)) for file in files_of(source, ".jsonl"))


def items(source: Path) -> Iterator[Item]:
    """See `Format.items`."""
    for file in files_of(source, ".jsonl"):
        if source.is_file() or _is_row(first_row(file)):
            yield from items_of(file, draft)


def draft(row: Any) -> Draft:
    """One row.

    Raises:
        TaskError: a field is missing.
    """
    site, number, question, address = texts_of(row, "web_name", "id", "ques", "web")
    name = folder_name(number)
    return Draft(
        name=name,
        toml={
            "schema_version": "1.4", "task": {"name": f"webvoyager/{name}"},
            "metadata": {"site": site, "start_url": address, "needs": NEEDS},
            "environment": {"network_mode": "public"},
        },
        texts={"instruction.md": f"{question}\n\nStart at {address}\n", "tests/test.sh": unjudged(NEEDS)},
    )  # fmt: skip


def _is_row(row: Any) -> bool:
    return isinstance(row, dict) and {"web_name", "id", "ques", "web"} <= row.keys()
