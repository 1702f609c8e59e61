"""The one thread that all torch work runs in, so that the event loop stays alive (bus leases, heartbeats)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from shared.errors import Cancelled

P = ParamSpec("P")
T = TypeVar("T")


class LearnerThread:
    """Runs functions one after the other in a thread of its own."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="learner")
        self._closed = False

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Calls a function in the thread and returns what it returns, or raises what it raises."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, lambda: function(*args, **kwargs))

    def check(self) -> None:
        """To be called now and then by long work in the thread.

        Raises:
            Cancelled: the thread is being closed; the process waits for it.
        """
        if self._closed:
            raise Cancelled("the trainer is stopping")

    def close(self) -> None:
        """Takes no more work; what runs ends with its next `check`."""
        self._closed = True
        self._executor.shutdown(wait=False, cancel_futures=True)
