"""What a run has come to, as the sum of its journal's records. Pure: the same records make the same state."""

from __future__ import annotations

from functools import singledispatchmethod

import msgspec

from services.trainer.books.ledger import Ledger
from services.trainer.journal.records import (
    Begun,
    Closed,
    Done,
    Doomed,
    Dropped,
    Entry,
    Evaluated,
    Late,
    Metered,
    Opened,
    Planned,
    Saved,
    Sealed,
)
from shared.errors import VerifierError

INTERRUPTED = "interrupted"
"""Reason of groups whose rollouts were ended because the run was, or by hand: nobody's failure."""


class Group(msgspec.Struct, kw_only=True):
    """A group that was started and is not done with.

    Attributes:
        plan: as it was started.
        closed: what became of it; None while it is open.
        doomed: why it is not waited for; empty if it is.
    """

    plan: Planned
    closed: Closed | None = None
    doomed: str = ""

    @property
    def result(self) -> Closed:
        """What became of it, once it has closed."""
        assert self.closed is not None, f"group {self.plan.name} is open"
        return self.closed


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """A group that was dropped, without its trajectories, and why."""

    group: Group
    reason: str


class Batch(msgspec.Struct, kw_only=True):
    """A step that is being learned from.

    Attributes:
        groups: names, in their order.
        started: training groups that were started for it.
        left: training groups that were dropped on the way.
    """

    groups: list[str]
    started: int = 0
    left: list[Left] = []


class RunState(msgspec.Struct, kw_only=True):
    """The state of a run.

    Attributes:
        settings: that the run began with.
        step: steps that are done.
        skipped: of them, those that learned nothing.
        version: weight version that is served.
        begun: the step that is being learned from.
        groups: those that are not done with, by name, in the order in which they were started.
        ready: training groups that closed and can be judged or taken, in the order in which they closed.
        planned: training groups that were ever started.
        started: training groups that were started since the last step began.
        left: training groups that were dropped since then.
        position: of the task order.
        failures: of verifiers, by task folder.
        ledger: the books.
        meter: the engine's count of sampled tokens as last read, while training rollouts are counted.
        evaluated: measurements by label.
        saved: step whose model was written as the result.
        last: the last step that was done.
        wall_s: seconds that the run has taken.
    """

    settings: dict[str, str] = {}
    step: int = 0
    skipped: int = 0
    version: int = 0
    begun: Batch | None = None
    groups: dict[str, Group] = {}
    ready: list[str] = []
    planned: int = 0
    started: int = 0
    left: list[Left] = []
    position: int = 0
    failures: dict[str, int] = {}
    ledger: Ledger = msgspec.field(default_factory=Ledger)
    meter: int | None = None
    evaluated: dict[str, Evaluated] = {}
    saved: int | None = None
    last: Done | None = None
    wall_s: float = 0.0

    def open(self, purpose: str = "train") -> list[Group]:
        """Groups that are waited for."""
        return [g for g in self.groups.values() if g.plan.purpose == purpose and g.closed is None and not g.doomed]

    @singledispatchmethod
    def apply(self, record: Entry) -> None:
        """Takes a record in."""
        raise TypeError(f"no record: {record!r}")

    @apply.register
    def _(self, record: Opened) -> None:
        self.settings = record.settings

    @apply.register
    def _(self, record: Planned) -> None:
        self.groups[record.name] = Group(plan=record)
        if record.purpose == "train":
            self.position = record.position
            self.planned += 1
            self.started += 1
            self.ledger.rollouts += record.size

    @apply.register
    def _(self, record: Closed) -> None:
        group = self.groups[record.name]
        group.closed = record
        if failed := record.outcomes.get(VerifierError.__name__, 0):
            self.failures[group.plan.task] = self.failures.get(group.plan.task, 0) + failed
        if group.plan.purpose == "train":
            self.ready.append(record.name)

    @apply.register
    def _(self, record: Dropped) -> None:
        group = self.groups.pop(record.name)
        self.ready.remove(record.name)
        self.ledger.drop(group.result.tokens, record.reason, group.result.sessions)
        group.closed = msgspec.structs.replace(group.result, trajectories=[], sessions=[])
        self.left.append(Left(group=group, reason=record.reason))

    @apply.register
    def _(self, record: Doomed) -> None:
        for name in record.names:
            self.groups[name].doomed = record.reason

    @apply.register
    def _(self, record: Sealed) -> None:
        self.ledger.seal(record.session, record.recorded, record.unrecorded)

    @apply.register
    def _(self, record: Late) -> None:
        self.ledger.miss(record.session, record.tokens)

    @apply.register
    def _(self, record: Metered) -> None:
        self.meter = record.count
        self.ledger.engine_tokens += record.sampled
        self.ledger.engine_lost |= record.lost

    @apply.register
    def _(self, record: Begun) -> None:
        self.begun = Batch(groups=record.groups, started=self.started, left=self.left)
        self.ready = [name for name in self.ready if name not in record.groups]
        self.started, self.left = 0, []

    @apply.register
    def _(self, record: Done) -> None:
        begun = self.begun
        assert begun is not None, "only a step that began is done"
        for name in begun.groups:
            result = self.groups.pop(name).result
            self.ledger.complete(result.tokens, result.sessions)
        self.begun, self.last = None, record
        self.step, self.version, self.wall_s = record.step, record.version, record.wall_s
        self.skipped += not record.rows
        self.ledger.trajectories += record.trajectories
        self.ledger.rows += record.rows
        if record.gap is not None:
            self.ledger.compare(record.gap)

    @apply.register
    def _(self, record: Evaluated) -> None:
        self.evaluated[record.label] = record
        for name in [name for name, group in self.groups.items() if group.plan.purpose == "eval"]:
            del self.groups[name]

    @apply.register
    def _(self, record: Saved) -> None:
        self.saved = record.step
