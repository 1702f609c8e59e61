"""Attempts of rollouts: each gets a recording session and a runner, and ends as one outcome on the bus."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tenacity import AsyncRetrying, before_sleep_log, retry_if_exception_type, wait_exponential

from services.orchestrator.backends import Backend
from services.orchestrator.gateway import Sessions
from services.orchestrator.harnesses import harness
from services.orchestrator.plan import Attempt, plan
from services.orchestrator.records import Records
from services.orchestrator.sandboxes import Sandboxes
from services.orchestrator.spec import Status
from services.orchestrator.state import Outcome, Rollout, Verdict, failed, judge, judged, scheduled, started, tossed
from shared.bus import Bus
from shared.config import Config
from shared.errors import BusUnavailable, Cancelled, ForgeError, SandboxError, TaskError
from shared.events import Message
from shared.ids import session_id
from shared.log import log_context
from shared.task import load_task

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Job:
    """A rollout that is being worked on.

    Attributes:
        rollout: where it stands.
        running: the current attempt has a runner already (of an earlier orchestrator).
        sealed: the current attempt's session was sealed.
        cancelled: somebody asked for its end.
        task: drives it.
        queue: waits for a place among the concurrent rollouts.
    """

    rollout: Rollout
    running: bool = False
    sealed: bool = False
    cancelled: bool = False
    task: asyncio.Task[None] | None = None
    queue: asyncio.Task[bool] | None = None

    @property
    def session(self) -> str:
        """Session of the current attempt."""
        return session_of(self.rollout)


def session_of(rollout: Rollout) -> str:
    """Session of a rollout's current attempt."""
    return session_id(rollout.start.rollout_id, rollout.attempt)


class Attempts:
    """Drives rollouts, `orchestrator.concurrency` of them at once."""

    def __init__(
        self, config: Config, bus: Bus, records: Records, gateway: Sessions, backend: Backend, sandboxes: Sandboxes
    ) -> None:
        self._config = config
        self._bus = bus
        self._records = records
        self._gateway = gateway
        self._backend = backend
        self._sandboxes = sandboxes
        self._places = asyncio.Semaphore(config.orchestrator.concurrency)

    async def drive(self, job: Job) -> None:
        """Makes attempts until the rollout is over."""
        with log_context(rollout=job.rollout.start.rollout_id):
            while not job.rollout.over:  # also when an outcome was refused meanwhile
                await self._attempt(job)

    def cancel(self, job: Job) -> None:
        """Ends a rollout at once."""
        job.cancelled = True
        self._backend.cancel(job.session)
        if job.queue:
            job.queue.cancel()

    async def say(self, message: Message) -> None:
        """Publishes, however long the bus is away."""
        retrying = AsyncRetrying(
            wait=wait_exponential(0.1, max=5.0), retry=retry_if_exception_type(BusUnavailable),
            before_sleep=before_sleep_log(log, logging.WARNING),
        )  # fmt: skip
        await retrying(self._bus.publish, message)

    async def _attempt(self, job: Job) -> None:
        try:
            self._records.accept(job.rollout)
            await self.say(scheduled(job.rollout))
            async with self._place(job):
                verdict = await self._run(job)
            after, outcome = judged(job.rollout, verdict, self._backend.limit(job.session))
        except ForgeError as e:
            error = Cancelled("somebody asked for its end") if job.cancelled else e
            after, outcome = failed(job.rollout, error, sealed=job.sealed)
        except Exception as e:  # a defect of ours ends this attempt, not the service
            log.exception("attempt %s ended in a way that was not foreseen", job.session)
            after, outcome = failed(job.rollout, SandboxError(f"{type(e).__name__}: {e}"), sealed=job.sealed)
        before, job.rollout = job.rollout, after  # now: an answer may come while the outcome is being said
        job.running = job.sealed = False
        await self.say(outcome)
        self._note(before, outcome)
        await asyncio.to_thread(self._sandboxes.settle, session_of(before), outcome)

    def _note(self, rollout: Rollout, outcome: Outcome) -> None:
        try:
            self._records.report(rollout, outcome)
        except OSError as e:
            log.error("the outcome of %s was published, but could not be noted: %s", session_of(rollout), e)

    @asynccontextmanager
    async def _place(self, job: Job) -> AsyncIterator[None]:
        """One of the places for concurrent rollouts; waiting for it ends at once when the rollout is cancelled."""
        if job.cancelled:
            raise Cancelled("cancelled between two attempts")
        job.queue = asyncio.ensure_future(self._places.acquire())
        try:
            await job.queue
        except asyncio.CancelledError:
            if not job.cancelled:
                raise
            raise Cancelled("cancelled before it began") from None
        finally:
            job.queue = None
        try:
            yield
        finally:
            self._places.release()

    async def _run(self, job: Job) -> Verdict:
        """Session, runner, seal: a session that was opened is sealed whatever becomes of its runner."""
        attempt = None if job.running else await self._open(job)
        ended = await self._carry_out(job, attempt)
        sealed = await self._gateway.seal(job.rollout)
        job.sealed = True
        if isinstance(ended, ForgeError):
            raise ended
        verdict = judge(ended, sealed)
        coin = self._config.orchestrator.reward == "coin" and job.rollout.start.purpose == "train"
        return tossed(verdict, job.rollout.start.rollout_id) if coin else verdict

    async def _open(self, job: Job) -> Attempt:
        start, folder = job.rollout.start, Path(job.rollout.start.task_dir)
        if not folder.is_absolute():
            raise TaskError(f"task_dir {start.task_dir!r} must be an absolute path")
        task, adapter = load_task(folder), harness(start.harness, self._config.orchestrator.harness_dir)
        return Attempt(
            start=start, task=task, harness=adapter, isolation=self._sandboxes.isolation,
            sandbox=self._sandboxes.folder(job.session), record=self._records.folder(job.rollout).resolve(),
            endpoint=await self._gateway.open(job.rollout, adapter.roles()), host_env=os.environ,
        )  # fmt: skip

    async def _carry_out(self, job: Job, attempt: Attempt | None) -> Status | ForgeError:
        """The runner's last status, or why there is none. Without an attempt to start, the runner is there already."""
        try:
            if attempt:
                self._backend.start(job.session, plan(attempt, self._config))
            job.rollout, message = started(job.rollout, self._sandboxes.isolation.kind)
            await self.say(message)
            return await self._backend.wait(job.session)
        except ForgeError as e:
            return e
