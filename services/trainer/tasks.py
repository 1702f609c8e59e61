"""Which task comes next. Pure, but for looking at folders."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from shared.errors import ConfigError


def find_tasks(folder: str, setting: str) -> list[Path]:
    """The task folders (those with a `task.toml`) in a folder, by name.

    Args:
        folder: as configured.
        setting: name of the setting, for the error.

    Raises:
        ConfigError: it is not set, or holds no task.
    """
    if not folder:
        raise ConfigError(f"{setting} is not set; it names a folder whose sub-folders are tasks")
    tasks = sorted(file.parent for file in Path(folder).glob("*/task.toml"))
    if not tasks:
        raise ConfigError(f"{setting}: no */task.toml in {folder}")
    return tasks


@dataclass(frozen=True, slots=True)
class TaskOrder:
    """An endless, reproducible order: all tasks once in a random order, then all of them again in another."""

    tasks: Sequence[Path]
    seed: int

    def at(self, position: int) -> Path:
        """The task at a position, from 0."""
        epoch, offset = divmod(position, len(self.tasks))
        order = list(self.tasks)
        random.Random(f"{self.seed}/{epoch}").shuffle(order)
        return order[offset]


def eval_plan(tasks: Sequence[Path], episodes: int) -> list[tuple[Path, int]]:
    """(task, episodes) such that the episodes are spread evenly and sum up to `episodes`; tasks without any are left out."""
    each, extra = divmod(episodes, len(tasks))
    plan = [(task, each + (i < extra)) for i, task in enumerate(tasks)]
    return [(task, size) for task, size in plan if size]


def sampling_seed(*parts: object) -> int:
    """A sampling seed, 31 bits, that differs with any of the parts."""
    text = "/".join(map(str, parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest()) >> 1
