"""Claw-Eval: a folder a task with `task.yaml`, `grader.py` and fixtures; mock services serve the agent's tools.

A grader imports the set's own package and reads the trace of its own agent loop and the services' records, so it cannot run
in a sandbox of ours: tasks are imported with what they need named, and leave no reward.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from services.dev.tasks.draft import Draft, Item, folder_name, inner_path, texts_of, unjudged
from services.dev.tasks.rows import read_text
from shared.errors import TaskError

ABOUT = "Claw-Eval tasks (task.yaml, grader.py, fixtures); they need its package, mock services and mostly a judge"
FILE = "task.yaml"
_FOR_GRADERS = ("sandbox_grader_files", "local_grader_files")
"""Files that no agent sees."""


def fits(source: Path) -> bool:
    """See `Format.fits`."""
    return next(_files(source), None) is not None


def items(source: Path) -> Iterator[Item]:
    """See `Format.items`."""
    for file in _files(source):
        yield Item(str(file.relative_to(source if source.is_dir() else source.parent)), partial(_draft_of, file))


def draft(task: Any, folder: Path) -> Draft:
    """One task.

    Args:
        task: content of task.yaml.
        folder: of it.

    Raises:
        TaskError: a field is missing, or a file leads out of the folder.
    """
    (number,) = texts_of(task, "task_id")
    (prompt,) = texts_of(task.get("prompt"), "text")
    name, wanted = folder_name(number), needs(task)
    files = _files_of(task, "sandbox_files")
    kept = [path for path in _files_of(task, *_FOR_GRADERS) if path not in files]
    copies = {f"environment/{path}": folder / path for path in files if (folder / path).exists()}
    copies |= {f"tests/{path}": folder / path for path in ("grader.py", *kept) if (folder / path).exists()}
    lacking = [path for path in dict.fromkeys((*files, *kept)) if not (folder / path).exists()]
    wanted += [f"the file {path}, which the source lacks" for path in lacking]
    limit = (task.get("environment") or {}).get("timeout_seconds")
    return Draft(
        name=name,
        toml={
            "schema_version": "1.4", "task": {"name": f"claw-eval/{name}"},
            "metadata": {
                "category": str(task.get("category", "")), "difficulty": str(task.get("difficulty", "")),
                "tools": _names(task, "tools"), "services": _names(task, "services"), "needs": wanted,
            },
            "environment": {"workdir": "/workspace"},
            "agent": {"timeout_sec": float(limit)} if isinstance(limit, int | float) and limit > 0 else {},
        },
        texts={
            "instruction.md": prompt.strip() + "\n", "tests/test.sh": unjudged(wanted),
            "tests/task.yaml": yaml.safe_dump(task, allow_unicode=True, sort_keys=False),
        },
        copies=copies,
    )  # fmt: skip


def needs(task: dict[str, Any]) -> list[str]:
    """What a task needs besides what is here."""
    found = ["the claw_eval package, which its grader imports"]
    found += [f"the mock service {name}" for name in _names(task, "services")]
    if (task.get("prompt") or {}).get("attachments"):
        found.append("a harness that shows the model the prompt's attachments")
    if task.get("env_snapshot_files") or task.get("env_snapshot_commands"):
        found.append("commands of the set that make what its grader looks at")
    if (task.get("user_agent") or {}).get("enabled"):
        found.append("a simulated user")
    if any(name.startswith("web_real") for name in _names(task, "services")):
        found.append("the live web")
    if task.get("judge_rubric"):
        found.append("a judge")
    return found


def _draft_of(file: Path) -> Draft:
    try:
        return draft(yaml.safe_load(read_text(file)), file.parent)
    except yaml.YAMLError as e:
        raise TaskError(f"not valid YAML: {' '.join(str(e).split())}") from None


def _files(source: Path) -> Iterator[Path]:
    found = [source] if source.is_file() else sorted(source.rglob(FILE))
    return (path for path in found if path.name == FILE and "task_id:" in read_text(path))


def _files_of(task: dict[str, Any], *fields: str) -> list[str]:
    return [inner_path(path, field) for field in fields for path in task.get(field) or []]


def _names(task: dict[str, Any], field: str) -> list[str]:
    entries = task.get(field) or []
    if not isinstance(entries, list) or not all(isinstance(e, dict) and isinstance(e.get("name"), str) for e in entries):
        raise TaskError(f"{field}: expected a list of tables with a name")
    return [entry["name"] for entry in entries]
