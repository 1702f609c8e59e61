"""What tasks are compared by."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from services.synth.ports import Text
from shared.task import family_of, load_task
from shared.task.folder import Task

_NOT_WORDS = re.compile(r"[^\w]+")


def text_of(folder: Path) -> Text:
    """What a task is compared by.

    Raises:
        TaskError: it cannot be loaded.
    """
    task = load_task(folder)
    text = "\n".join(step.instruction for step in task.steps)
    environment = _digest(task.environment_dir.rglob("*"), task.environment_dir)
    answer = _digest(_hidden(task), task.folder)
    whole = hashlib.sha256(f"{normal(text)}\0{environment}\0{answer}".encode()).hexdigest()
    return Text(
        name=task.name, text=text, digest=whole, family=family_of(task.name, task.metadata), environment=environment,
        answer=answer,
    )  # fmt: skip


def normal(text: str) -> str:
    """A text in small letters, its words joined by one space each."""
    return _NOT_WORDS.sub(" ", text.lower()).strip()


def _hidden(task: Task) -> Iterable[Path]:
    for step in task.steps:
        for folder in (*step.tests, step.solution):
            yield from folder.rglob("*")


def _digest(paths: Iterable[Path], top: Path) -> str:
    """Of names and contents; empty for no file."""
    files = sorted(path for path in set(paths) if path.is_file() and not path.is_symlink())
    digest = hashlib.sha256()
    for file in files:
        content = file.read_bytes()
        digest.update(f"{file.relative_to(top)}\0{len(content)}\0".encode() + content)
    return digest.hexdigest() if files else ""
