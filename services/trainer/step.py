"""The rollouts of one training step: groups are started, replaced when they are dropped, and checked."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from services.trainer.desk import GroupDesk, GroupPlan, GroupResult, outcomes_text
from services.trainer.ledger import Ledger
from services.trainer.samples import Vote, read_vote
from services.trainer.tasks import TaskOrder
from shared.config import TrainerConfig
from shared.errors import FidelityError, ForgeError

log = logging.getLogger(__name__)

STALE = "stale"
"""Reason of a group with calls that another weight version answered than the one that is trained."""

Tell = Callable[[int, int], Awaitable[None]]
"""Told of groups closed so far and groups started."""


@dataclass(slots=True)
class Gathered:
    """What a step's rollouts came to.

    Attributes:
        kept: groups that are trained on, with their votes, in the order in which they were started.
        drops: groups that are not, per reason.
        started: groups in all.
    """

    kept: list[tuple[GroupResult, list[Vote]]] = field(default_factory=list)
    drops: Counter[str] = field(default_factory=Counter)
    started: int = 0

    @property
    def groups(self) -> list[list[Vote]]:
        """The votes of each kept group."""
        return [votes for _, votes in self.kept]


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
        order: of the tasks; goes on where the last step stopped.
        ledger: told of rollouts and of dropped groups; those that are kept are entered once they are trained on.
        config: of the trainer.
        step: from 1.
        version: weight version that every call has to be of.
        tell: told of progress.

    Raises:
        ForgeError: groups did not close in time, or the infrastructure lost every single rollout.
    """
    until = asyncio.get_running_loop().time() + config.step_timeout_s
    limit = math.ceil(config.groups * config.oversample)
    results: list[GroupResult] = []
    while True:
        while desk.open + len(gathered.kept) < config.groups and gathered.started < limit:
            name = f"s{step}-g{gathered.started:02}"
            await desk.start(GroupPlan(name, order.at(ledger.rollouts // config.n), config.n, "train", name))
            gathered.started += 1
            ledger.rollouts += config.n
        if not desk.open:
            break
        results.append(await desk.next(until))
        _take(gathered, results[-1], ledger, version)
        await tell(len(results), gathered.started)
    if not any(r.graded for r in results):
        raise ForgeError(
            f"step {step}: every rollout was lost: {outcomes_text(results)}; see the orchestrator's and proxy's logs"
        )
    gathered.kept.sort(key=lambda kept: kept[0].plan.name)


def refusal(result: GroupResult, version: int) -> str:
    """Why a group cannot be trained on, empty if it can. A trajectory without calls has no version."""
    stale = any(t.calls and not t.min_version == t.max_version == version for t in result.trajectories)
    return result.refused or (STALE if stale else "")


def _take(gathered: Gathered, result: GroupResult, ledger: Ledger, version: int) -> None:
    reason, votes = refusal(result, version), []
    if not reason:
        try:
            votes = [read_vote(t) for t in result.trajectories]
        except FidelityError as e:
            log.error("group %s: %s", result.plan.name, e)
            reason = FidelityError.__name__
    if reason:
        log.info("group %s is dropped: %s", result.plan.name, reason)
        gathered.drops[reason] += 1
        ledger.drop(result.tokens, reason)
    else:
        gathered.kept.append((result, votes))
