"""Run folders, and what their archives tell."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from services.collector.archive import FOLDER
from services.collector.archive_reader import Damage, read
from services.collector.history import History, Rollout
from shared.config import Config, load_config
from shared.errors import ArchiveError, ConfigError
from shared.events import GroupMessage, Message, RolloutMessage

Wanted = Callable[[Message], bool]


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A run on disk, alive or not: its folder and its configuration."""

    folder: Path
    config: Config

    @property
    def run_id(self) -> str:
        """Of the run."""
        return self.folder.name

    @property
    def archive(self) -> Path:
        """Folder of its archive."""
        return self.folder / FOLDER


def run_folders(root: Path) -> list[Path]:
    """Folders of the runs under a root, the newest first."""
    files = root.glob("*/config.json")
    return [f.parent for f in sorted(files, key=lambda f: (f.stat().st_mtime, f.parent.name), reverse=True)]


def open_run(root: Path, run_id: str = "") -> RunFolder:
    """The run of that id, else the newest.

    Raises:
        ConfigError: there is none, or its configuration cannot be read.
    """
    folders = {f.name: f for f in run_folders(root)}
    if not folders:
        raise ConfigError(f"{root.resolve()}: no runs are there; name their folder with --root")
    name = run_id or next(iter(folders))
    if name not in folders:
        raise ConfigError(f"no run {name!r} under {root.resolve()}{suggestion(name, folders)}")
    return RunFolder(folders[name], load_config(folders[name] / "config.json"))


def load(run: RunFolder, wanted: Wanted = lambda message: True) -> tuple[History, Damage]:
    """The history of a run, or the part of it that is wanted.

    Raises:
        ArchiveError: there is no archive, or it cannot be read.
    """
    history, damage = History(), Damage()
    for message in read(run.archive, damage):
        if wanted(message):
            history.add(message)
    return history, damage


def load_rollout(run: RunFolder, rollout_id: str) -> tuple[History, Rollout, Damage]:
    """One rollout, in a history that has nothing but it and the messages that close groups.

    Raises:
        ArchiveError: there is no such rollout, with a suggestion; or as `load`.
    """
    known: set[str] = set()
    names = (rollout_id, f"{run.run_id}-{rollout_id}")

    def wanted(message: Message) -> bool:
        if isinstance(message, RolloutMessage):
            known.add(message.rollout_id)
            return message.rollout_id in names
        return isinstance(message, GroupMessage)

    history, damage = load(run, wanted)
    found = next((history.rollouts[name] for name in names if name in history.rollouts), None)
    if found is None:
        raise ArchiveError(f"no rollout {rollout_id!r} in run {run.run_id}{suggestion(rollout_id, known)}")
    return history, found, damage


def suggestion(name: str, known: Iterable[str]) -> str:
    """What to say after "no such name": those that are close, else some that there are."""
    names = sorted(known)
    if near := difflib.get_close_matches(name, names, n=3, cutoff=0.5) or [n for n in names if name in n][:3]:
        return f"; did you mean {' or '.join(near)}?"
    return f"; there are {', '.join(names[:3])}{', ...' if len(names) > 3 else ''}" if names else ""


def damage_lines(damage: Damage) -> list[str]:
    """What a person should know of the state of an archive, a line each; none where all is well."""
    told = [
        (damage.torn, "members were cut off at their end: their writer was killed, or is still writing"),
        (damage.unreadable, "bytes cannot be read: a file is damaged"),
        (damage.foreign, "lines are no messages of this version"),
    ]
    lines = [f"{n} {what}" for n, what in told if n]
    return lines + [f"{event_id} was archived twice with different content" for event_id in damage.conflicts]
