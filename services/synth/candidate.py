"""A task on its way, and what follows from where it stands. Pure."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from services.synth.model import Proposal, Verdict
from shared.events import TaskAccepted, TaskBuilt, TaskProposed, TaskRefined, TaskRejected, TaskTried
from shared.events.tasks import TaskMessage

Stage = Literal["asked", "proposed", "built", "tried", "accepted", "rejected", "quarantined"]
ENDED = frozenset({"accepted", "rejected", "quarantined"})
PRUNED = "prune"
"""In the place of a gate: the proposal was turned down before anything was built."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A task on its way.

    Attributes:
        task_id: of its messages; of its proposal's number.
        number: of its proposal.
        stage: what was done last.
        proposal: None if there is none.
        round: of its refinement; 0 before the first.
        digest: of its content.
        gate: that it failed, or `PRUNED`; empty if it failed none.
        reason: in a word that can be counted.
        detail: for people.
        held: why it waits until somebody goes on with it; empty if it does not.
        shared: others would wait for that, too: money, rollouts, a model that does not answer.
        began: unix time in seconds at which it was asked for.
        ended: unix time in seconds at which it was through; 0 before.
    """

    task_id: str
    number: int
    stage: Stage
    proposal: Proposal | None = None
    round: int = 0
    digest: str = ""
    gate: str = ""
    reason: str = ""
    detail: str = ""
    held: str = ""
    shared: bool = False
    began: float
    ended: float = 0.0

    @property
    def name(self) -> str:
        """Of its folder, once it is accepted."""
        return self.proposal.task_id if self.proposal else self.task_id

    @property
    def over(self) -> bool:
        """Nothing more is done with it."""
        return self.stage in ENDED


def proposed(task: Candidate, proposal: Proposal) -> Candidate:
    """It has a proposal, which is unlike all before it."""
    return msgspec.structs.replace(task, stage="proposed", proposal=proposal, held="")


def pruned(task: Candidate, proposal: Proposal | None, reason: str, detail: str, now: float) -> Candidate:
    """There is no proposal, or it is like another one."""
    return msgspec.structs.replace(
        task, stage="rejected", proposal=proposal, gate=PRUNED, reason=reason, detail=detail, held="", ended=now
    )


def built(task: Candidate, digest: str, number: int = 0) -> Candidate:
    """Its folder was written; `number` is the round, 0 for the first time."""
    return msgspec.structs.replace(task, stage="built", digest=digest, round=number, gate="", reason="", detail="", held="")


def tried(task: Candidate, failure: Verdict | None) -> Candidate:
    """It went through the gates, up to the first that it failed."""
    gate, reason, detail = (failure.gate, failure.reason, failure.detail) if failure else ("", "", "")
    return msgspec.structs.replace(task, stage="tried", gate=gate, reason=reason, detail=detail, held="")


def accepted(task: Candidate, now: float) -> Candidate:
    """It passed every gate, and lies among the accepted ones."""
    return msgspec.structs.replace(task, stage="accepted", held="", ended=now)


def rejected(task: Candidate, now: float, *, gate: str = "", reason: str = "", detail: str = "") -> Candidate:
    """It is given up: what failed and was changed goes to quarantine with its history, what nobody could change is rejected."""
    return msgspec.structs.replace(
        task, stage="quarantined" if task.round else "rejected", gate=gate or task.gate, reason=reason or task.reason,
        detail=detail or task.detail, held="", ended=now,
    )  # fmt: skip


def held(task: Candidate, why: str, *, shared: bool = False) -> Candidate:
    """It waits; without a reason it goes on."""
    return msgspec.structs.replace(task, held=why, shared=shared)


def message_of(task: Candidate, run_id: str) -> TaskMessage:
    """What is told once the candidate stands there."""
    told: dict[str, Any] = {"run_id": run_id, "task_id": task.task_id, "round": task.round, "detail": task.detail[:_DETAIL]}
    match task.stage:
        case "proposed" if task.proposal:
            return TaskProposed(name=task.name, domain=task.proposal.domain, family=task.proposal.family, **told)
        case "built" if task.round:
            return TaskRefined(digest=task.digest, **told)
        case "built":
            return TaskBuilt(digest=task.digest, **told)
        case "tried":
            return TaskTried(gate=task.gate, reason=task.reason, **told)
        case "accepted":
            return TaskAccepted(digest=task.digest, **told)
    return TaskRejected(gate=task.gate, reason=task.reason, **told)


_DETAIL = 2000
"""Characters of it that go over the bus; the whole stands on disk."""
