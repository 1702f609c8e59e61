"""What a run did, folded from its archived messages in whatever order they come. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from services.collector.attempt import Outcome
from shared.events import (
    CallRecorded,
    GroupCompleted,
    GroupDiscarded,
    Message,
    Purpose,
    RolloutFailed,
    RolloutFinished,
    RolloutMessage,
    RolloutScheduled,
    RolloutTimedOut,
    SessionSealed,
    TrajectoryAssembled,
    TrajectoryDiscarded,
)

M = TypeVar("M", bound=Message)


@dataclass(slots=True)
class Attempt:
    """One attempt of a rollout.

    Attributes:
        number: counts from 1.
        scheduled: its beginning.
        outcome: how it ended.
        sealed: its session's end.
        settled: what the collector said became of it.
        calls: its records by number.
        conflict: number of a call that was recorded twice with different content.
        last_at: unix seconds at which it was declared the rollout's last; None where it was not.
    """

    number: int
    scheduled: RolloutScheduled | None = None
    outcome: Outcome | None = None
    sealed: SessionSealed | None = None
    settled: TrajectoryAssembled | TrajectoryDiscarded | None = None
    calls: dict[int, CallRecorded] = field(default_factory=dict)
    conflict: str | None = None
    last_at: float | None = None

    @property
    def records(self) -> list[CallRecorded]:
        """Its calls in the order of their numbers."""
        return [self.calls[seq] for seq in sorted(self.calls)]


@dataclass(slots=True)
class Rollout:
    """One rollout of a group, with its attempts by number."""

    rollout_id: str
    group_id: str
    purpose: Purpose
    attempts: dict[int, Attempt] = field(default_factory=dict)

    @property
    def announced(self) -> RolloutScheduled | Outcome | None:
        """A message that tells task, harness and size of the group."""
        told = [m for _, a in sorted(self.attempts.items()) for m in (a.scheduled, a.outcome) if m is not None]
        return told[0] if told else None

    @property
    def task(self) -> str:
        """Name of the task; empty before it is known."""
        return self.announced.task if self.announced else ""

    @property
    def harness(self) -> str:
        """Name of the harness adapter; empty before it is known."""
        return self.announced.harness if self.announced else ""


@dataclass(slots=True)
class Group:
    """One group, with its rollouts by id, and the message that closed it."""

    group_id: str
    rollouts: dict[str, Rollout] = field(default_factory=dict)
    closed: GroupCompleted | GroupDiscarded | None = None

    @property
    def announced(self) -> RolloutScheduled | Outcome | None:
        """The earliest message that tells its task, size and purpose; the collector refused those that say otherwise."""
        attempts = [a for r in self.rollouts.values() for a in r.attempts.values()]
        told = [m for a in attempts for m in (a.scheduled, a.outcome) if m is not None]
        return min(told, key=lambda m: (m.at, m.rollout_id), default=None)

    @property
    def size(self) -> int:
        """Rollouts that it has; 0 before any was announced."""
        return self.announced.group_size if self.announced else 0


@dataclass(slots=True)
class History:
    """A run. Its groups and rollouts by id; other messages of the run in `others`."""

    groups: dict[str, Group] = field(default_factory=dict)
    rollouts: dict[str, Rollout] = field(default_factory=dict)
    others: list[Message] = field(default_factory=list)

    def add(self, message: Message) -> None:
        """Folds a message in. Of several about one thing the earliest counts, as it does for the collector."""
        match message:
            case GroupCompleted() | GroupDiscarded():
                group = self._group(message.group_id)
                group.closed = _first(group.closed, message)
            case RolloutMessage():
                self._add_to(self._attempt(message), message)
            case _:
                self.others.append(message)

    def _add_to(self, attempt: Attempt, message: RolloutMessage) -> None:
        match message:
            case CallRecorded():
                known = attempt.calls.get(message.seq)
                attempt.calls[message.seq] = _first(known, message)
                attempt.conflict = attempt.conflict or (str(message.seq) if known is not None else None)
            case RolloutScheduled():
                attempt.scheduled = _first(attempt.scheduled, message)
            case RolloutFinished() | RolloutTimedOut() | RolloutFailed():
                attempt.outcome = _first(attempt.outcome, message)
                if isinstance(message, RolloutFailed) and message.final:
                    attempt.last_at = min(attempt.last_at or message.at, message.at)
            case SessionSealed():
                attempt.sealed = _first(attempt.sealed, message)
            case TrajectoryAssembled() | TrajectoryDiscarded():
                attempt.settled = _first(attempt.settled, message)
            case _:
                pass

    def _attempt(self, message: RolloutMessage) -> Attempt:
        rollout = self.rollouts.get(message.rollout_id)
        if rollout is None:
            rollout = Rollout(message.rollout_id, message.group_id, message.purpose)
            self.rollouts[message.rollout_id] = self._group(message.group_id).rollouts[message.rollout_id] = rollout
        return rollout.attempts.setdefault(message.attempt, Attempt(message.attempt))

    def _group(self, group_id: str) -> Group:
        return self.groups.setdefault(group_id, Group(group_id))


def fold(messages: Iterable[Message]) -> History:
    """The history that messages tell, each given once (`archive_reader.read`)."""
    history = History()
    for message in messages:
        history.add(message)
    return history


def _first(known: M | None, message: M) -> M:
    return message if known is None or message.at < known.at else known
