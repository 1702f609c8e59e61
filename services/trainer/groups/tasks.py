"""Which task comes next. Nothing is read but the names of folders."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from shared.errors import ConfigError, ForgeError


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


class TaskOrder:
    """Hands out tasks in an endless, reproducible order: all of them once in a random order, then all again in another.

    A task whose verifier keeps failing is left out from then on. The order of the others stays what it was.

    Args:
        tasks: task folders.
        seed: decides on the order.
        quarantine_after: verifier failures after which a task is left out; 0 never.
        position: where an earlier one with the same arguments stood.
        failures: of verifiers, by task folder; looked up whenever a task is handed out.

    Attributes:
        position: how many places of the order were passed.
    """

    def __init__(
        self,
        tasks: Sequence[Path],
        seed: int,
        quarantine_after: int = 0,
        position: int = 0,
        failures: Mapping[str, int] | None = None,
    ) -> None:
        self._tasks = tasks
        self._seed = seed
        self._quarantine_after = quarantine_after
        self._failures = {} if failures is None else failures
        self.position = position

    @property
    def quarantined(self) -> dict[str, int]:
        """Names of the tasks that are left out, each with the number of its verifier failures."""
        return {task.name: self._failures[str(task)] for task in self._tasks if self._is_quarantined(task)}

    def next(self) -> Path:
        """The task that comes next.

        Raises:
            ForgeError: all tasks are left out.
        """
        if len(self.quarantined) == len(self._tasks):
            raise ForgeError(
                f"the verifiers of all {len(self._tasks)} training tasks failed {self._quarantine_after} times or more: none "
                f"is left to train on; see their logs (trainer.quarantine_after says when a task is left out)"
            )
        while self._is_quarantined(task := self._at(self.position)):
            self.position += 1
        self.position += 1
        return task

    def _is_quarantined(self, task: Path) -> bool:
        return 0 < self._quarantine_after <= self._failures.get(str(task), 0)

    def _at(self, position: int) -> Path:
        epoch, offset = divmod(position, len(self._tasks))
        order = list(self._tasks)
        random.Random(f"{self._seed}/{epoch}").shuffle(order)
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
