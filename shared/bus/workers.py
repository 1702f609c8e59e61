"""The background tasks of a bus connection, and their orderly end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager

log = logging.getLogger(__name__)

GRACE_S = 5.0
"""Seconds that a connection which is being closed waits for handlers that run."""


class Workers:
    """Tasks that wait for messages and handle them. A message that is being handled is finished, waiting ends at once."""

    def __init__(self) -> None:
        self.stopping = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._busy: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[None, None, None], *, busy: bool = False) -> None:
        """Runs `work` in the background; `busy` if all of it is the handling of a message. An error that ends it is logged:
        nothing else would tell of it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        if busy:
            self._busy.add(task)
        task.add_done_callback(self._ended)

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Marks the running task as handling a message."""
        task = asyncio.current_task()
        assert task is not None, "busy() is for tasks of this pool"
        self._busy.add(task)
        try:
            yield
        finally:
            self._busy.discard(task)

    async def stop(self, grace_s: float) -> None:
        """Ends waiting tasks at once, and those that handle a message when they are through or after `grace_s` seconds."""
        self.stopping = True
        for task in self._tasks - self._busy:
            task.cancel()
        if self._busy:
            await asyncio.wait(self._busy, timeout=grace_s)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._busy.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("a consumer of the bus ended", exc_info=error)
