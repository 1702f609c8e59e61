"""The tasks of an evaluation, read before anything is started."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from shared.errors import TaskError
from shared.task import family_of, folder_digest, list_tasks, load_task


@dataclass(frozen=True, slots=True)
class Known:
    """A task: its folder, its name, its family, and a digest of all that is in the folder."""

    folder: Path
    name: str
    family: str
    digest: str


def read_tasks(folder: Path) -> list[Known]:
    """The tasks in a folder, or the one task that it is, by name.

    Raises:
        TaskError: there is none, one cannot be used, or two have one name.
    """
    folders = [folder] if (folder / "task.toml").is_file() else list_tasks(folder)
    known = [_known(path.resolve()) for path in folders]
    if twice := [name for name, count in Counter(k.name for k in known).items() if count > 1]:
        raise TaskError(f"{folder}: several tasks are named {twice[0]!r}; results are kept by name, so each needs its own")
    return sorted(known, key=lambda k: k.name)


def _known(folder: Path) -> Known:
    task = load_task(folder)
    return Known(folder, task.name, family_of(task.name, task.metadata), folder_digest(folder)[:16])
