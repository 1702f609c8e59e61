"""OSWorld: a JSON file a task (`id`, `instruction`, `snapshot`, `config`, `evaluator`); tasks in a desktop of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from services.dev.tasks.draft import Draft, Item, folder_name, texts_of, unjudged
from services.dev.tasks.rows import files_of, read_text
from shared.errors import TaskError

ABOUT = "OSWorld tasks (a JSON file each: id, instruction, config, evaluator); they need its virtual machine"


def fits(source: Path) -> bool:
    """See `Format.fits`."""
    return any(_looks(file) for file in files_of(source, ".json"))


def items(source: Path) -> Iterator[Item]:
    """See `Format.items`."""
    for file in files_of(source, ".json"):
        if source.is_file() or _looks(file):
            yield Item(file.name, partial(_draft_of, file))


def draft(task: Any) -> Draft:
    """One task. What sets the desktop up and what judges it is kept beside the tests, where no agent sees it.

    Raises:
        TaskError: a field is missing.
    """
    number, instruction = texts_of(task, "id", "instruction")
    if not isinstance(task.get("evaluator"), dict):
        raise TaskError("evaluator: expected a table")
    name, machine = folder_name(number), str(task.get("snapshot") or "ubuntu")
    needs = [f"OSWorld's virtual machine (snapshot {machine})"]
    apps = [app for app in task.get("related_apps") or [] if isinstance(app, str)]
    return Draft(
        name=name,
        toml={
            "schema_version": "1.4", "task": {"name": f"osworld/{name}"},
            "metadata": {"snapshot": machine, "apps": apps, "page": str(task.get("source") or ""), "needs": needs},
        },
        texts={
            "instruction.md": instruction + "\n", "tests/test.sh": unjudged(needs),
            "tests/osworld.json": json.dumps(task, indent=1, ensure_ascii=False),
        },
    )  # fmt: skip


def _draft_of(file: Path) -> Draft:
    try:
        return draft(json.loads(read_text(file)))
    except ValueError as e:
        raise TaskError(f"not valid JSON: {e}") from None


def _looks(file: Path) -> bool:
    try:
        text = read_text(file)
    except TaskError:
        return False
    return '"evaluator"' in text and '"instruction"' in text
