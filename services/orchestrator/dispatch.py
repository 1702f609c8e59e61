"""Lets waiting rollouts begin as caps, priorities and the rate allow. One that waits costs an entry in a queue, not a task."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from itertools import count

from services.orchestrator.attempts import Attempts
from services.orchestrator.jobs import Job
from services.orchestrator.queue import Bucket, Caps, Queue
from services.orchestrator.share import Share
from shared.config import OrchestratorConfig
from shared.errors import Cancelled
from shared.store.shares import Shares

log = logging.getLogger(__name__)

SAYERS = 16
"""Rollouts whose acceptance, or end before they began, is said on the bus at once."""

_LOOK_S = 0.02


class Dispatcher:
    """All rollouts that are not over.

    Args:
        config: caps and rate.
        attempts: makes them.
        run: id of the run.
        shares: of the pool that the run shares with others; None if it shares none.
    """

    def __init__(self, config: OrchestratorConfig, attempts: Attempts, run: str = "", shares: Shares | None = None) -> None:
        self.jobs: dict[str, Job] = {}
        self._attempts = attempts
        self._queue = Queue(Caps(config.concurrency, config.task_concurrency))
        self._bucket = Bucket(config.starts_per_s)
        self._numbers = count()
        self._unsaid: asyncio.Queue[Job] = asyncio.Queue()
        self._news = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._share: Share | None = None
        if shares:
            self._share = Share(shares, run, config.priority, config.capacity.size, self._queue, self._news.set)
        self._next = ""  # has its place already, and waits for the rate

    @property
    def waiting(self) -> int:
        """Rollouts that wait for a place."""
        return len(self._queue)

    @property
    def running(self) -> int:
        """Rollouts that have one."""
        return self._queue.running

    def start(self) -> None:
        """Begins to work."""
        self._tasks = [asyncio.create_task(work) for work in (self._dispatch(), *(self._speak() for _ in range(SAYERS)))]
        if self._share:
            self._tasks.append(asyncio.create_task(self._share.forever()))

    def add(self, job: Job) -> None:
        """Takes a rollout on. One whose sandbox was asked for already runs, whatever the caps say."""
        job.number, self.jobs[job.id] = next(self._numbers), job
        if job.asked:
            self._queue.occupy(job.ticket)
            self._begin(job)
        else:
            self._wait(job)

    def cancel(self, job: Job) -> None:
        """Ends a rollout at once, whether it waits or runs."""
        if job.cancelled or job.rollout.over:
            return
        job.cancelled = True
        if self._queue.drop(job.id):
            self._unsaid.put_nowait(job)
        else:
            self._attempts.cancel(job)
        self._changed()

    async def stop(self, within_s: float) -> None:
        """Cancels all rollouts; what cannot be reported in time is left to the next orchestrator."""
        for job in list(self.jobs.values()):
            self.cancel(job)
        until = time.monotonic() + within_s
        while self.jobs and time.monotonic() < until:  # noqa: ASYNC110 - an event would have to be shared with `_dispatch`
            await asyncio.sleep(_LOOK_S)
        await _end([*self._tasks, *(job.task for job in self.jobs.values() if job.task)])
        if self._share:
            await self._share.stop(leave=not self.jobs)

    async def _dispatch(self) -> None:
        while True:
            while ticket := self._queue.next():
                self._next = ticket.name
                await self._pace()
                self._begin(self.jobs[ticket.name])
                self._next = ""
            await self._news.wait()
            self._news.clear()

    async def _pace(self) -> None:
        while (left := self._bucket.take(time.monotonic())) > 0:  # noqa: ASYNC110 - time is what is waited for
            await asyncio.sleep(left)

    async def _speak(self) -> None:
        """Says of rollouts that they wait, or that they ended before they began."""
        while True:
            await asyncio.sleep(0)  # thousands may stand here: those that run come first
            job = await self._unsaid.get()
            if job.task or job.id == self._next:
                continue  # its attempt says the rest
            if job.cancelled:
                await self._attempts.close(job, Cancelled("cancelled before it began"))
                self._over(job)
            elif not job.announced:
                await self._attempts.announce(job)

    def _wait(self, job: Job) -> None:
        job.waiting_since, job.task = time.monotonic(), None
        if job.cancelled:
            self._unsaid.put_nowait(job)
            return
        self._queue.add(job.ticket)
        if not job.announced:
            self._unsaid.put_nowait(job)
        self._changed()

    def _begin(self, job: Job) -> None:
        job.task = asyncio.create_task(self._carry(job))

    async def _carry(self, job: Job) -> None:
        """One attempt, and what follows from it."""
        try:
            await self._attempts.make(job)
        finally:
            self._queue.release(job.id)
        if job.rollout.over:
            self._over(job)
        else:
            self._wait(job)

    def _over(self, job: Job) -> None:
        del self.jobs[job.id]
        self._changed()

    def _changed(self) -> None:
        self._news.set()
        if self._share:
            self._share.note()


async def _end(tasks: Iterable[asyncio.Task[None]]) -> None:
    ending = list(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)
