"""Which groups a step may learn from, and what its rollouts came to. Pure."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from services.trainer.batch.samples import Vote, read_vote
from services.trainer.books.ledger import all_dropped
from services.trainer.journal.state import INTERRUPTED, Group, RunState
from shared.errors import Cancelled, FidelityError
from shared.events import TokenCounts, Trajectory

log = logging.getLogger(__name__)

STALE = "stale"
"""Reason of a group with calls whose weight version lags too far behind the one that is trained."""


@dataclass(slots=True)
class Gathered:
    """What a step's rollouts came to.

    Attributes:
        kept: groups that are trained on, with their votes, in the order in which they are.
        dropped: groups that are not, with the reason.
        started: groups in all.
    """

    kept: list[tuple[Group, list[Vote]]] = field(default_factory=list)
    dropped: list[tuple[Group, str]] = field(default_factory=list)
    started: int = 0

    @property
    def groups(self) -> list[list[Vote]]:
        """The votes of each kept group."""
        return [votes for _, votes in self.kept]

    @property
    def tokens(self) -> list[TokenCounts]:
        """Where the sampled tokens of each group went."""
        return [g.result.tokens for g, _ in self.kept] + [all_dropped(g.result.tokens, why) for g, why in self.dropped]


def gathered(state: RunState) -> Gathered:
    """What the rollouts of the step that has begun came to."""
    begun = state.begun
    assert begun is not None, "a step has begun"
    kept = [state.groups[name] for name in begun.groups]
    return Gathered(
        kept=[(group, [read_vote(t) for t in group.result.trajectories]) for group in kept],
        dropped=[(left.group, left.reason) for left in begun.left],
        started=begun.started,
    )


def staleness(trajectories: Sequence[Trajectory], version: int) -> int:
    """Versions by which the oldest call of a group lags behind the one that is trained; a trajectory without calls has none.

    Raises:
        FidelityError: a call saw newer weights than those that are trained.
    """
    versions = [v for t in trajectories if t.calls for v in (t.min_version, t.max_version)]
    if max(versions, default=version) > version:
        raise FidelityError(f"it has calls of weight version {max(versions)}, but {version} is the newest that was trained")
    return version - min(versions, default=version)


def refusal(group: Group, version: int, bound: int) -> str:
    """Why a closed group cannot be trained on; empty if it can.

    Args:
        group: it.
        version: weight version that is trained now.
        bound: versions by which its oldest call may lag behind.
    """
    result = group.result
    if group.doomed:
        return group.doomed
    if result.refused:
        return INTERRUPTED if Cancelled.__name__ in result.outcomes else result.refused
    try:
        for t in result.trajectories:
            read_vote(t)
        return STALE if staleness(result.trajectories, version) > bound else ""
    except FidelityError as e:
        log.error("group %s: %s", group.plan.name, e)
        return FidelityError.__name__
