"""Training rollouts: groups are started, replaced when they are dropped, and taken for steps, at the pace that was set."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

from services.trainer.groups.desk import outcomes_text, wait_until
from services.trainer.groups.pace import Standing, batch, stale_after, to_start
from services.trainer.groups.step import STALE, refusal, staleness
from services.trainer.groups.tasks import TaskOrder
from services.trainer.journal.records import Doomed, Dropped, Planned
from services.trainer.journal.state import INTERRUPTED, Group
from services.trainer.tools import Tools
from shared.errors import ForgeError

log = logging.getLogger(__name__)


class Rollouts:
    """The training groups of a run.

    Args:
        tools: of the run.
        order: of the tasks.
    """

    def __init__(self, tools: Tools, order: TaskOrder) -> None:
        self._tools = tools
        self._config = tools.config.trainer
        self._history = tools.history
        self.order = order
        self._sound: set[str] = set()
        self._told: int | None = None

    async def gather(self, step: int) -> list[str]:
        """The groups that a step learns from, in their order, once they are there.

        Raises:
            ForgeError: groups did not close in time, the infrastructure lost every single rollout, or no task is left.
        """
        until = asyncio.get_running_loop().time() + self._config.step_timeout_s
        self._told = None
        while True:
            changed = self._history.changed
            await self._refill(step)
            await self._tell(step)
            if (names := batch(self._standing(), self._config)) is not None:
                break
            await wait_until(changed, until, [name for name, _ in self._standing().open])
        self._check_lost(step, names)
        return names

    async def go_on(self, work: asyncio.Future[Any]) -> None:
        """Starts groups, and replaces dropped ones, until something else is done."""
        while not work.done():
            changed = self._history.changed
            await self._refill(self._history.state.step + 2)
            waiting = asyncio.ensure_future(changed.wait())
            await asyncio.wait({work, waiting}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()

    async def cancel_stale(self, version: int) -> None:
        """Ends the rollouts of groups that will lag too far behind once a version is served."""
        names = stale_after(self._standing(), version, self._config)
        await self._give_up([self._history.state.groups[name] for name in names], STALE, "its group has become stale")

    def depths(self) -> dict[str, float]:
        """How many groups are under way, as metrics."""
        standing = self._standing()
        doomed = sum(bool(g.doomed) for g in self._history.state.groups.values())
        return {
            "pace/groups_open": len(standing.open), "pace/groups_ready": len(standing.ready), "pace/groups_cancelled": doomed,
        }  # fmt: skip

    async def _refill(self, step: int) -> None:
        """Drops what cannot be trained on, and starts as many groups as there is room for."""
        await self._judge()
        for _ in range(to_start(self._standing(), self._config)):
            await self._start(step)

    async def _start(self, step: int) -> None:
        state = self._history.state
        name = f"s{step}-g{state.started:02}" if self._config.pace.mode == "sync" else f"g{state.planned:06}"
        task = self.order.next()
        plan = Planned(
            name=name, task=str(task), size=self._config.n, purpose="train", seed=name, position=self.order.position
        )  # fmt: skip
        await self._tools.desk.start(plan)

    async def _judge(self) -> None:
        state = self._history.state
        for name in list(state.ready):
            if reason := self._refusal(state.groups[name]):
                log.info("group %s is dropped: %s", name, reason)
                self._sound.discard(name)
                await self._history.note(Dropped(name=name, reason=reason))
        for task in self.order.quarantined.keys() - state.ledger.quarantined.keys():
            log.warning("task %s is left out: its verifier keeps failing; see its logs", task)
        state.ledger.quarantined = self.order.quarantined

    def _refusal(self, group: Group) -> str:
        version, bound = self._history.state.version, self._config.pace.max_staleness
        if group.plan.name in self._sound and not group.doomed:
            return STALE if staleness(group.result.trajectories, version) > bound else ""
        reason = refusal(group, version, bound)
        if not reason:
            self._sound.add(group.plan.name)
        return reason

    async def _give_up(self, groups: list[Group], reason: str, text: str) -> None:
        if groups:
            log.info("%d groups are ended: %s", len(groups), text)
            await self._history.note(Doomed(names=[g.plan.name for g in groups], reason=reason))
            await self._tools.desk.cancel(groups, text)

    async def _tell(self, step: int) -> None:
        wanted = self._config.groups
        ready = min(len(self._standing().ready), wanted)
        if ready != self._told:
            self._told = ready
            detail = f"step {step} of {self._config.steps}: {ready} of {wanted} groups"
            await self._tools.stage("train", detail, step - 1, self._config.steps)

    def _standing(self) -> Standing:
        state = self._history.state
        nobodys = sum(left.reason == INTERRUPTED for left in state.left)
        closing = sum(g.doomed == INTERRUPTED for g in state.groups.values())
        unjudged = [state.groups[name] for name in state.ready if name not in self._sound]
        return Standing(
            done=state.step,
            open=[(g.plan.name, g.plan.version) for g in [*state.open(), *unjudged]],
            ready=[name for name in state.ready if name in self._sound],
            training=len(state.begun.groups) if state.begun else 0,
            started=state.started - nobodys - closing,
            dropped=len(state.left) - nobodys,
        )

    def _check_lost(self, step: int, names: Iterable[str]) -> None:
        state = self._history.state
        results = [left.group.result for left in state.left] + [state.groups[name].result for name in names]
        if not any(r.graded for r in results):
            raise ForgeError(
                f"step {step}: every rollout was lost: {outcomes_text(results)}; see the orchestrator's and proxy's logs"
            )
