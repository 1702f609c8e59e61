"""The tasks that a new one must not be a copy of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from services.synth.gates.texts import text_of
from services.synth.ports import Text
from shared.config import Config
from shared.errors import TaskError
from shared.task import list_tasks


class TaskPool:
    """See `Pool`. What was read is remembered: accepted tasks do not change, and new ones are told of.

    Args:
        config: names the folders of earlier tasks and of evaluation sets.
        accepted: folder of accepted tasks; need not be there.

    Raises:
        TaskError: a named folder has no tasks, or one of them cannot be read.
    """

    def __init__(self, config: Config, accepted: Path) -> None:
        gates = config.synth.gates
        used = [config.tasks.heldout] if config.tasks.heldout else []
        self._held_out = _named("synth.gates.heldout", gates.heldout) + _named("tasks.heldout", used)
        self._accepted = _named("synth.gates.pool", gates.pool)
        self._accepted += _read(sorted(file.parent for file in accepted.glob("[!.]*/task.toml")))

    def accepted(self) -> Sequence[Text]:
        """See `Pool.accepted`."""
        return self._accepted

    def held_out(self) -> Sequence[Text]:
        """See `Pool.held_out`."""
        return self._held_out

    def add(self, folder: Path) -> None:
        """Another task was accepted."""
        self._accepted.append(text_of(folder))


def _named(setting: str, folders: Iterable[str]) -> list[Text]:
    """The tasks of folders that a setting names."""
    try:
        return _read(task for folder in folders for task in list_tasks(Path(folder)))
    except TaskError as e:
        raise TaskError(f"{setting}: {e}") from None


def _read(folders: Iterable[Path]) -> list[Text]:
    return [text_of(folder) for folder in folders]
