"""The training loop's body: rollouts, update, push, report."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from services.trainer.advantage import credit
from services.trainer.metrics import on_policy_gap, step_metrics
from services.trainer.ports import Learner, Update
from services.trainer.publish import Publisher
from services.trainer.samples import Sample
from services.trainer.step import Gathered, cut, gather
from services.trainer.tasks import TaskOrder
from services.trainer.tools import Tools
from shared.events import RunStepped

log = logging.getLogger(__name__)

FAILED = "step_failed"
"""Reason of groups that could have been trained on, had their step not failed."""


class Training:
    """Steps on one learner. `version` is the weight version that is served."""

    def __init__(self, tools: Tools, learner: Learner, publisher: Publisher, order: TaskOrder) -> None:
        self._tools = tools
        self._learner = learner
        self._publisher = publisher
        self._order = order
        self.version = 0

    async def step(self, step: int) -> None:
        """One step, counted from 1: afterwards the engine serves what was learned. Without a usable group nothing is learned.

        Raises:
            ForgeError: the rollouts, the update or the push failed.
        """
        timings: dict[str, float] = {}
        with _timed(timings, "step"):
            trained = self.version
            gathered, samples, update = await self._learn(step, timings)
            with _timed(timings, "push"):
                if update is not None:
                    await self._publisher.publish(self._learner, self.version + 1)
                    self.version += 1
        metrics = step_metrics(step, trained, gathered, samples, update, timings)
        metrics["tasks_quarantined"] = len(self._order.quarantined)
        await self._report(step, metrics, skipped=update is None)

    async def _learn(self, step: int, timings: dict[str, float]) -> tuple[Gathered, list[Sample], Update | None]:
        """Rollouts and update. Enters every group in the books, whether it was learned from or not."""
        config, ledger, gathered = self._tools.config.trainer, self._tools.ledger, Gathered()
        try:
            with _timed(timings, "gen"):
                await self._gather(step, gathered)
            samples = credit(cut(gathered, ledger, config, self.version), config.algorithm)
            with _timed(timings, "update"):
                update = await self._tools.thread.run(self._learner.update, samples) if samples else None
        except BaseException:
            for result, _ in gathered.kept:
                ledger.drop(result.tokens, FAILED)
            raise
        for result, _ in gathered.kept:
            ledger.complete(result.tokens)
        ledger.trajectories += sum(vote.trained > 0 for votes in gathered.groups for vote in votes)
        ledger.rows += len(samples)
        if update is not None and (gap := on_policy_gap(samples, update, self.version)) is not None:
            ledger.compare(gap)
        return gathered, samples, update

    async def _gather(self, step: int, gathered: Gathered) -> None:
        tools, config = self._tools, self._tools.config.trainer

        async def tell(closed: int, started: int) -> None:
            detail = f"step {step} of {config.steps}: {closed} of {started} groups"
            await tools.stage("train", detail, step - 1, config.steps)

        await tell(0, config.groups)
        async with self._counted():
            await gather(gathered, tools.desk, self._order, tools.ledger, config, step, self.version, tell)
        await self._publisher.check_served(self.version)

    @asynccontextmanager
    async def _counted(self) -> AsyncIterator[None]:
        """Enters in the books what the engine samples meanwhile, by its own count."""
        before = await self._tools.engine.generated_tokens()
        try:
            yield
        finally:
            self._tools.ledger.engine_tokens += await self._tools.engine.generated_tokens() - before

    async def _report(self, step: int, metrics: dict[str, float], skipped: bool) -> None:
        tools = self._tools
        tools.summary.steps, tools.summary.version = step, self.version
        tools.summary.steps_skipped += skipped
        event = RunStepped(run_id=tools.config.run.id, step=step, version=self.version, metrics=metrics)
        tools.files.add_metrics(step, event.at, metrics)
        log.info("step %d: %s", step, metrics)
        await tools.bus.publish(event)


@contextmanager
def _timed(timings: dict[str, float], name: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    timings[name] = time.monotonic() - began
