"""Online-Mind2Web: rows `task_id`, `confirmed_task`, `website`, `reference_length`, `level`; tasks on the live web."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from services.dev.tasks.draft import Draft, Item, folder_name, texts_of, unjudged
from services.dev.tasks.rows import files_of, first_row, items_of

ABOUT = "Online-Mind2Web rows (a JSON list: task_id, confirmed_task, website, ...); they need the live web and a judge"
NEEDS = ["the live web", "a judge that looks at screenshots"]


def fits(source: Path) -> bool:
    """See `Format.fits`."""
    return any(_is_row(first_row(file)) for file in files_of(source, ".json", ".jsonl"))


def items(source: Path) -> Iterator[Item]:
    """See `Format.items`."""
    for file in files_of(source, ".json", ".jsonl"):
        if source.is_file() or _is_row(first_row(file)):
            yield from items_of(file, draft)


def draft(row: Any) -> Draft:
    """One row.

    Raises:
        TaskError: a field is missing.
    """
    number, wish, address = texts_of(row, "task_id", "confirmed_task", "website")
    name = folder_name(number)
    known = {key: row[key] for key in ("level", "reference_length") if isinstance(row.get(key), str | int)}
    return Draft(
        name=name,
        toml={
            "schema_version": "1.4", "task": {"name": f"online-mind2web/{name}"},
            "metadata": {"start_url": address, "needs": NEEDS, **known},
            "environment": {"network_mode": "public"},
        },
        texts={"instruction.md": f"{wish}\n\nStart at {address}\n", "tests/test.sh": unjudged(NEEDS)},
    )  # fmt: skip


def _is_row(row: Any) -> bool:
    return isinstance(row, dict) and {"task_id", "confirmed_task", "website"} <= row.keys()
