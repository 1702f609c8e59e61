"""Success on held-out tasks: share of episodes with reward 1, at the temperature and limits of training."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from services.trainer.desk import GroupDesk, GroupPlan, GroupResult, outcomes_text
from services.trainer.tasks import eval_plan
from shared.errors import ForgeError

SOLVED = 1 - 1e-9
"""Reward from which on an episode counts as a success."""
MAX_UNSCORED = 0.1
"""Share of episodes that the infrastructure may lose."""

Tell = Callable[[int, int], Awaitable[None]]
"""Told of episodes done and episodes in all."""


@dataclass(frozen=True, slots=True)
class Score:
    """A measurement.

    Attributes:
        solved: episodes with reward 1.
        scored: episodes that ended by the policy's doing.
        unscored: episodes that the infrastructure lost; they say nothing about the policy.
    """

    solved: int
    scored: int
    unscored: int

    @property
    def success(self) -> float:
        """Share of scored episodes with reward 1, in [0, 1]."""
        return self.solved / self.scored


def score(results: list[GroupResult], episodes: int) -> Score:
    """Counts the episodes of closed groups. One that ran out of time is scored, solved or not.

    Raises:
        ForgeError: more episodes than can be ignored were lost.
    """
    solved = sum(t.reward >= SOLVED for r in results for t in r.trajectories)
    scored = sum(r.graded for r in results)
    unscored = episodes - scored
    if unscored > MAX_UNSCORED * episodes:
        lost = f"{unscored} of {episodes} held-out episodes were lost"
        raise ForgeError(f"{lost}: {outcomes_text(results)}; see the orchestrator's log")
    return Score(solved, scored, unscored)


async def evaluate(desk: GroupDesk, tasks: list[Path], episodes: int, label: str, timeout_s: float, tell: Tell) -> Score:
    """Runs held-out episodes, all at once, and scores them. Before and after training they are sampled with the same seeds.

    Args:
        desk: starts groups.
        tasks: held-out task folders.
        episodes: how many in all, spread evenly over the tasks.
        label: `before` or `after`.
        timeout_s: by when all have to be there.
        tell: told of progress.

    Raises:
        ForgeError: they did not end in time, or too many were lost.
    """
    until = asyncio.get_running_loop().time() + timeout_s
    for i, (task, size) in enumerate(eval_plan(tasks, episodes)):
        await desk.start(GroupPlan(f"eval-{label}-g{i:03}", task, size, "eval", f"eval/{i}"))
    results: list[GroupResult] = []
    while desk.open:
        results.append(await desk.next(until))
        await tell(sum(r.plan.size for r in results), episodes)
    return score(results, episodes)
