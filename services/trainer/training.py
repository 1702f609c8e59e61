"""The training loop's body: rollouts, update, push, report."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from services.trainer.batch.advantage import credit
from services.trainer.batch.samples import Sample
from services.trainer.books.meter import Meter
from services.trainer.books.metrics import on_policy_gap, step_metrics
from services.trainer.groups.desk import group_id
from services.trainer.groups.rollouts import Rollouts
from services.trainer.groups.step import Gathered, gathered
from services.trainer.journal.records import Begun, Done
from services.trainer.ports import Learner, Update
from services.trainer.tools import Tools
from services.trainer.weights.publish import Publisher
from shared.events import RunStepped

log = logging.getLogger(__name__)


class Training:
    """Steps on one learner.

    Args:
        tools: of the run.
        learner: that learns.
        publisher: brings its weights to the engines.
        rollouts: bring the groups of each step.
        once: metrics that the first step's are told with.
    """

    def __init__(
        self, tools: Tools, learner: Learner, publisher: Publisher, rollouts: Rollouts, once: Mapping[str, float] = {},
    ) -> None:  # fmt: skip
        self._tools = tools
        self._config = tools.config.trainer
        self._history = tools.history
        self._learner = learner
        self._publisher = publisher
        self._rollouts = rollouts
        self._once = dict(once)
        self._meter = Meter(tools.engine, tools.history)

    @property
    def version(self) -> int:
        """The weight version that is served."""
        return self._history.state.version

    async def step(self, step: int) -> None:
        """One step, counted from 1: afterwards the engine serves what was learned. Without a usable group nothing is learned.

        A step that an earlier trainer began is begun again with the same groups.

        Raises:
            ForgeError: the rollouts, the update or the push failed.
        """
        timings: dict[str, float] = {}
        with _timed(timings, "step"):
            if self._history.state.begun is None:
                with _timed(timings, "gen"):
                    await self._gather(step)
            made = gathered(self._history.state)
            queues = self._rollouts.depths()
            samples = credit(made.groups, self._config.algorithm)
            with _timed(timings, "update"):
                update = await self._learn(samples)
            trained = self.version
            with _timed(timings, "push"):
                if update is not None:
                    await self._push(trained + 1)
        metrics = step_metrics(step, trained, made, samples, update, timings) | queues | self._once
        self._once = {}
        metrics["tasks_quarantined"] = len(self._rollouts.order.quarantined)
        await self._end(step, made, samples, update, metrics)

    async def publish(self) -> None:
        """Has the engine serve the learner's weights as they are."""
        await self._publisher.publish(self._learner, self.version)
        await self._meter.read()

    async def _gather(self, step: int) -> None:
        async with self._meter.counted(going_on=self._config.pace.max_staleness > 0):
            names = await self._rollouts.gather(step)
        await self._publisher.check_served(self.version)
        await self._history.note(Begun(step=step, groups=names))

    async def _learn(self, samples: list[Sample]) -> Update | None:
        """One update, while rollouts go on as far as they may."""
        if not samples:
            return None
        samples = await self._history.completed(samples)
        work = asyncio.ensure_future(self._tools.thread.run(self._learner.update, samples))
        if self._config.pace.max_staleness:
            await self._rollouts.go_on(work)
        return await work

    async def _push(self, version: int) -> None:
        if self._config.pace.cancel_stale:
            await self._rollouts.cancel_stale(version)
        await self._publisher.publish(self._learner, version)
        await self._meter.read()

    async def _end(
        self, step: int, made: Gathered, samples: list[Sample], update: Update | None, metrics: dict[str, float]
    ) -> None:
        """The step is done, which is durable before anybody is told."""
        done = Done(
            step=step,
            version=self.version + (update is not None),
            trajectories=sum(vote.trained > 0 for votes in made.groups for vote in votes),
            rows=len(samples),
            gap=None if update is None else on_policy_gap(samples, update, self.version),
            at=time.time(),
            wall_s=self._history.wall_s,
            metrics=metrics,
            groups=[group_id(self._tools.config.run.id, result.plan.name) for result, _ in made.kept],
        )
        await self._history.note(done)
        await report(self._tools, done)


async def report(tools: Tools, done: Done) -> None:
    """Tells of a step, in `metrics.jsonl` and on the bus. Doing it again changes nothing."""
    event = RunStepped(
        run_id=tools.config.run.id, step=done.step, version=done.version, metrics=done.metrics, groups=done.groups, at=done.at,
    )  # fmt: skip
    tools.files.metrics.add_step(done.step, done.at, done.metrics)
    log.info("step %d: %s", done.step, done.metrics)
    await tools.bus.publish(event)


@contextmanager
def _timed(timings: dict[str, float], name: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    timings[name] = time.monotonic() - began
