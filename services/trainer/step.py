"""The rollouts of one training step: groups are started, replaced when they are dropped, and checked."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from services.trainer.desk import GroupDesk, GroupPlan, GroupResult, outcomes_text
from services.trainer.ledger import Ledger, all_dropped
from services.trainer.samples import Vote, read_vote
from services.trainer.tasks import TaskOrder
from shared.config import TrainerConfig
from shared.errors import FidelityError, ForgeError, VerifierError
from shared.events import TokenCounts, Trajectory

log = logging.getLogger(__name__)

STALE = "stale"
"""Reason of a group with calls whose weight version lags too far behind the one that is trained."""

Tell = Callable[[int, int], Awaitable[None]]
"""Told of groups closed so far and groups started."""


@dataclass(slots=True)
class Gathered:
    """What a step's rollouts came to.

    Attributes:
        kept: groups that are trained on, with their votes.
        dropped: groups that are not, with the reason.
        started: groups in all.
    """

    kept: list[tuple[GroupResult, list[Vote]]] = field(default_factory=list)
    dropped: list[tuple[GroupResult, str]] = field(default_factory=list)
    started: int = 0

    @property
    def groups(self) -> list[list[Vote]]:
        """The votes of each kept group, in the order in which the groups were started."""
        return [votes for _, votes in sorted(self.kept, key=lambda kept: kept[0].plan.name)]

    @property
    def tokens(self) -> list[TokenCounts]:
        """Where the sampled tokens of each group went."""
        return [r.tokens for r, _ in self.kept] + [all_dropped(r.tokens, reason) for r, reason in self.dropped]


async def gather(
    gathered: Gathered,
    desk: GroupDesk,
    order: TaskOrder,
    ledger: Ledger,
    config: TrainerConfig,
    step: int,
    version: int,
    tell: Tell,
) -> None:
    """Runs the groups of a step. A dropped one is replaced by one on the next task, up to `config.oversample` times as many.

    Args:
        gathered: takes in what comes, so that it is there whatever happens.
        desk: starts groups.
        order: of the tasks; goes on where the last step stopped, and is told of failed verifiers.
        ledger: told of rollouts and of dropped groups; those that are kept are entered once they are trained on.
        config: of the trainer.
        step: from 1.
        version: weight version that is trained.
        tell: told of progress.

    Raises:
        ForgeError: groups did not close in time, the infrastructure lost every single rollout, or no task is left.
    """
    until = asyncio.get_running_loop().time() + config.step_timeout_s
    limit = math.ceil(config.groups * config.oversample)
    results: list[GroupResult] = []
    while True:
        while desk.open + len(gathered.kept) < config.groups and gathered.started < limit:
            name = f"s{step}-g{gathered.started:02}"
            await desk.start(GroupPlan(name, order.next(), config.n, "train", name))
            gathered.started += 1
            ledger.rollouts += config.n
        if not desk.open:
            break
        results.append(await desk.next(until))
        order.note_failures(results[-1].plan.task, results[-1].outcomes.get(VerifierError.__name__, 0))
        ledger.quarantined = order.quarantined
        _take(gathered, results[-1], ledger, config, version)
        await tell(len(results), gathered.started)
    if not any(r.graded for r in results):
        raise ForgeError(
            f"step {step}: every rollout was lost: {outcomes_text(results)}; see the orchestrator's and proxy's logs"
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


def cut(gathered: Gathered, ledger: Ledger, config: TrainerConfig, version: int) -> list[list[Vote]]:
    """The votes of the groups of a batch. Kept groups that have become stale leave as a whole.

    Args:
        gathered: changed when groups leave.
        ledger: told of them.
        config: has the bound.
        version: weight version that is trained now.
    """
    for kept in list(gathered.kept):
        if staleness(kept[0].trajectories, version) > config.max_staleness:
            gathered.kept.remove(kept)
            _drop(gathered, kept[0], ledger, STALE)
    return gathered.groups


def _take(gathered: Gathered, result: GroupResult, ledger: Ledger, config: TrainerConfig, version: int) -> None:
    votes, reason = _judge(result, config, version)
    if reason:
        _drop(gathered, result, ledger, reason)
    else:
        gathered.kept.append((result, votes))


def _judge(result: GroupResult, config: TrainerConfig, version: int) -> tuple[list[Vote], str]:
    """The votes of a group, and why it cannot be trained on; empty if it can."""
    if result.refused:
        return [], result.refused
    try:
        stale = staleness(result.trajectories, version) > config.max_staleness
        return [read_vote(t) for t in result.trajectories], STALE if stale else ""
    except FidelityError as e:
        log.error("group %s: %s", result.plan.name, e)
        return [], FidelityError.__name__


def _drop(gathered: Gathered, result: GroupResult, ledger: Ledger, reason: str) -> None:
    log.info("group %s is dropped: %s", result.plan.name, reason)
    gathered.dropped.append((result, reason))
    ledger.drop(result.tokens, reason)
