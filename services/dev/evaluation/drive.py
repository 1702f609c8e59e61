"""Runs the episodes of an evaluation on a stack that is up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from services.dev.evaluation.fold import KINDS, Fold, Planned
from services.dev.evaluation.taskset import Known
from services.trainer.evaluation.report import Episode
from services.trainer.groups.tasks import sampling_seed
from shared.bus import Bus
from shared.config import Config
from shared.events import Message, RolloutStart
from shared.ids import check_id

Told = Callable[[list[Episode]], None]
"""Told of the episodes of a group that ended, before anything else happens with them."""
_AHEAD = 2
"""Rollouts asked for at once, as a multiple of those that run at once: groups that waited for hours would be given up."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What to run: tasks, harnesses, and tries at each task in each harness."""

    tasks: Sequence[Known]
    harnesses: Sequence[str]
    n: int

    @property
    def episodes(self) -> int:
        """How many there will be."""
        return len(self.tasks) * len(self.harnesses) * self.n


def plan_groups(wish: Wish, run_id: str) -> list[Planned]:
    """A group for each task in each harness, harness by harness."""
    made = []
    for h, harness in enumerate(wish.harnesses):
        for t, task in enumerate(wish.tasks):
            group = check_id(f"{run_id}-h{h}-t{t:04}", "group id")
            made.append(Planned(group, task, harness, tuple(f"{group}-r{r}" for r in range(wish.n))))
    return made


class Drive:
    """One evaluation.

    Args:
        bus: of the stack.
        config: of the stack.
        told: see `Told`.
    """

    def __init__(self, bus: Bus, config: Config, told: Told) -> None:
        self._bus, self._config, self._told = bus, config, told
        self._fold = Fold()
        self._open: dict[str, Planned] = {}
        self._changed = asyncio.Event()
        self._episodes: list[Episode] = []

    async def run(self, groups: Sequence[Planned]) -> list[Episode]:
        """All episodes of the groups, in the order in which the groups ended."""
        await self._bus.consume("evaluation", KINDS, self._on_message, run_id=self._config.run.id)
        waiting = list(groups[::-1])
        while waiting or self._open:
            while waiting and self._has_room(waiting[-1]):
                await self._start(waiting.pop())
            self._changed.clear()
            await self._changed.wait()
        return self._episodes

    def _has_room(self, group: Planned) -> bool:
        running = sum(len(g.rollouts) for g in self._open.values())
        return not running or running + len(group.rollouts) <= _AHEAD * self._config.orchestrator.concurrency

    async def _start(self, group: Planned) -> None:
        self._open[group.group_id] = group
        for number, rollout in enumerate(group.rollouts):
            await self._bus.publish(self._rollout(group, rollout, number))

    async def _on_message(self, message: Message) -> None:
        if ended := self._fold.add(message, self._open):
            self._told(ended)
            self._episodes += ended
            del self._open[message.key]
            self._changed.set()

    def _rollout(self, group: Planned, rollout: str, number: int) -> RolloutStart:
        """Two evaluations with one seed sample a task's tries alike, whatever other tasks there are."""
        config = self._config
        return RolloutStart(
            run_id=config.run.id, rollout_id=rollout, group_id=group.group_id, group_size=len(group.rollouts), purpose="eval",
            task_dir=str(group.task.folder), harness=group.harness,
            sampling={
                "temperature": config.proxy.temperature,
                "max_tokens": config.trainer.max_tokens,
                "seed": sampling_seed(config.run.seed, "eval", group.task.name, number),
            },
        )  # fmt: skip
