"""The journal of a run together with the state that its records add up to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from services.trainer.batch.samples import Sample, completed, mentioned, referred
from services.trainer.journal.beside import BesideFiles
from services.trainer.journal.journal import Journal, JournalError
from services.trainer.journal.records import Begun, Closed, Done, Entry, decode, encode
from services.trainer.journal.state import RunState

BESIDE = "blobs"
"""Folder of what rows refer to, in that of the journal."""


@dataclass(frozen=True, slots=True)
class Taught:
    """A step that is in the journal from beginning to end: the groups that it learned from, in their order, and its outcome."""

    groups: list[Closed]
    done: Done


class History:
    """Everything that happened to a run, durable in the order in which it happened.

    Args:
        journal: where it is written.
        state: what the records of the journal add up to.

    Attributes:
        state: what it adds up to now.
        beside: what the rows of its groups refer to.
        changed: set with the next record; another one takes its place then.
    """

    def __init__(self, journal: Journal, state: RunState) -> None:
        self.journal = journal
        self.state = state
        self.beside = BesideFiles(journal.folder / BESIDE)
        self.changed = asyncio.Event()
        self._earlier_s, self._began = state.wall_s, time.monotonic()

    @property
    def wall_s(self) -> float:
        """Seconds that the run has taken, in this process and in earlier ones up to the last step that they ended."""
        return self._earlier_s + time.monotonic() - self._began

    async def completed(self, samples: Sequence[Sample]) -> list[Sample]:
        """Samples of its groups, with the images and the like that they refer to.

        Raises:
            JournalError: one of those is gone or damaged.
        """
        hashes = {sha for s in samples for sha in referred(s)}
        beside = await asyncio.to_thread(lambda: {sha: self.beside.read(sha) for sha in hashes})
        return [completed(s, beside) for s in samples]

    async def note(self, record: Entry) -> None:
        """Adds what happened. Returns when it is durable; `state` has it at once.

        Raises:
            JournalError: the disk is full or broken.
        """
        mark = self.journal.append(encode(record))
        self.state.apply(record)
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()
        await self.journal.sync(mark)


def fold(journal: Journal, cursor: int, state: RunState) -> list[Taught]:
    """Adds the records from a cursor on to a state. Returns the steps that ended in them.

    Raises:
        JournalError: the journal does not begin early enough, or is not what this trainer writes.
    """
    taught: list[Taught] = []
    groups: list[Closed] = []
    for record in _records(journal, cursor):
        if isinstance(record, Begun):
            groups = [closed for name in record.groups if (closed := state.groups[name].closed) is not None]
        state.apply(record)
        if isinstance(record, Done):
            taught.append(Taught(groups, record))
    return taught


def needed_beside(journal: Journal, cursor: int, state: RunState) -> set[str]:
    """Hashes of all that may be wanted again by whoever goes on from a state, and the records from a cursor on.

    Raises:
        JournalError: as `fold`.
    """
    closed = [group.closed for group in state.groups.values() if group.closed]
    closed += [record for record in _records(journal, cursor) if isinstance(record, Closed)]
    return mentioned(t for c in closed for t in c.trajectories)


def _records(journal: Journal, cursor: int) -> Iterator[Entry]:
    for number, body in enumerate(journal.read(cursor), cursor):
        try:
            yield decode(body)
        except msgspec.DecodeError as e:
            raise JournalError(f"record {number} of the journal is none that this version knows: {e}") from None
