"""Starts groups of rollouts and hands out what became of them, in the order in which they close."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from services.trainer.tasks import sampling_seed
from shared.bus import Bus
from shared.config import Config
from shared.errors import FidelityError, ForgeError, Rejected
from shared.events import (
    GroupCompleted,
    GroupDiscarded,
    Message,
    Purpose,
    RolloutCancel,
    RolloutStart,
    TokenCounts,
    Trajectory,
)
from shared.ids import check_id
from shared.store.blobs import Blobs

log = logging.getLogger(__name__)

GRADED = ("finished", "timed_out")
"""Outcomes that are the policy's doing; all others are the infrastructure's."""
_LONGEST_PREFIX = 80
_trajectories = msgspec.json.Decoder(list[Trajectory])


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """A group to be started.

    Attributes:
        name: unique within the run: `s3-g07`.
        task: task folder.
        size: number of rollouts.
        purpose: train or eval.
        seed: text that the sampling seeds are drawn from.
    """

    name: str
    task: Path
    size: int
    purpose: Purpose
    seed: str


@dataclass(frozen=True, slots=True)
class GroupResult:
    """A group that closed.

    Attributes:
        plan: as it was started.
        trajectories: those with a reward.
        tokens: over all attempts of all its rollouts.
        outcomes: number of rollouts per outcome.
        refused: why it cannot be trained on; empty if it can.
    """

    plan: GroupPlan
    trajectories: list[Trajectory]
    tokens: TokenCounts
    outcomes: dict[str, int]
    refused: str = ""

    @property
    def graded(self) -> int:
        """Rollouts that ended by the policy's doing."""
        return sum(self.outcomes.get(o, 0) for o in GRADED)


def outcomes_text(results: Sequence[GroupResult]) -> str:
    """The outcomes of groups for a person: `EngineError x 3, finished x 1`."""
    totals = sum((Counter(r.outcomes) for r in results), Counter[str]())
    return ", ".join(f"{outcome} x {count}" for outcome, count in sorted(totals.items())) or "nothing was heard of them"


def rollout_name(group_id: str, number: int) -> str:
    """Id of a rollout of a group, numbered from 0."""
    return f"{group_id}-r{number}"


def strangers(group_id: str, plan: GroupPlan, trajectories: Sequence[Trajectory]) -> list[str]:
    """Rollouts of trajectories that a group was not started with, or that have a second vote."""
    votes = Counter(t.rollout_id for t in trajectories)
    votes.subtract(rollout_name(group_id, n) for n in range(plan.size))
    return sorted(+votes)


class GroupDesk:
    """The groups of one run. Ids begin with the run's, because the bus knows each id once, over all runs."""

    def __init__(self, config: Config, bus: Bus, blobs: Blobs) -> None:
        self._config = config
        self._bus = bus
        self._blobs = blobs
        self._open: dict[str, GroupPlan] = {}
        self._closed: asyncio.Queue[GroupCompleted | GroupDiscarded] = asyncio.Queue()

    @property
    def open(self) -> int:
        """Groups that were started and whose result was not handed out."""
        return len(self._open)

    async def start(self, plan: GroupPlan) -> None:
        """Asks the orchestrator for the rollouts of a group."""
        group_id = check_id(f"{self._config.run.id[-_LONGEST_PREFIX:].strip('-')}-{plan.name}", "group id")
        self._open[group_id] = plan
        for r in range(plan.size):
            await self._bus.publish(self._rollout(plan, group_id, r))

    async def deliver(self, message: Message) -> None:
        """Takes a message from the bus; one about a group that is not open (any more) is noted and left.

        Raises:
            Rejected: it is no group, or one with others' rollouts.
        """
        if not isinstance(message, GroupCompleted | GroupDiscarded):
            raise Rejected(f"the trainer has no use for {message.event_id}")
        plan = self._open.get(message.group_id)
        if plan and isinstance(message, GroupCompleted) and (wrong := strangers(message.group_id, plan, message.trajectories)):
            raise Rejected(f"group {message.group_id} was not started with {wrong}")
        self._closed.put_nowait(message)

    async def next(self, until: float) -> GroupResult:
        """The next group that closes.

        Args:
            until: time of the event loop to wait for.

        Raises:
            ForgeError: none closed by then.
        """
        try:
            async with asyncio.timeout_at(until):
                while True:
                    message = await self._closed.get()
                    if plan := self._open.pop(message.group_id, None):
                        return await self._result(plan, message)
                    log.warning(
                        "group %s is not waited for: a repeated message, or one of an earlier trainer", message.group_id
                    )
        except TimeoutError:
            waiting = ", ".join(plan.name for plan in self._open.values())
            raise ForgeError(f"groups did not close in time: {waiting}; see the logs of orchestrator and collector") from None

    async def cancel(self, reason: str) -> None:
        """Asks the orchestrator to end the rollouts of all open groups."""
        plans, self._open = self._open, {}
        for group_id, plan in plans.items():
            for r in range(plan.size):
                about = RolloutCancel(
                    run_id=self._config.run.id,
                    rollout_id=rollout_name(group_id, r),
                    group_id=group_id,
                    purpose=plan.purpose,
                    reason=reason,
                )
                await self._bus.publish(about)

    async def _result(self, plan: GroupPlan, message: GroupCompleted | GroupDiscarded) -> GroupResult:
        if isinstance(message, GroupDiscarded):
            return GroupResult(plan, [], message.tokens, message.outcomes, message.reason)
        try:
            return GroupResult(plan, await self._trajectories(plan, message), message.tokens, message.outcomes)
        except FidelityError as e:
            log.warning("group %s: %s", message.group_id, e)
            return GroupResult(plan, [], message.tokens, message.outcomes, FidelityError.__name__)

    async def _trajectories(self, plan: GroupPlan, message: GroupCompleted) -> list[Trajectory]:
        if message.ref is None:
            return message.trajectories
        try:
            trajectories = _trajectories.decode(await self._blobs.get(message.ref))
        except msgspec.DecodeError as e:
            raise FidelityError(f"blob {message.ref.key[:12]} holds no trajectories: {e}") from e
        if wrong := strangers(message.group_id, plan, trajectories):
            raise FidelityError(f"blob {message.ref.key[:12]} has {wrong}")
        return trajectories

    def _rollout(self, plan: GroupPlan, group_id: str, number: int) -> RolloutStart:
        sampling = {
            "temperature": self._config.proxy.temperature,
            "max_tokens": self._config.trainer.max_tokens,
            "seed": sampling_seed(self._config.run.seed, plan.seed, number),
        }
        return RolloutStart(
            run_id=self._config.run.id,
            rollout_id=rollout_name(group_id, number),
            group_id=group_id,
            purpose=plan.purpose,
            group_size=plan.size,
            task_dir=str(plan.task),
            harness=self._config.trainer.harness,
            sampling=sampling,
        )
