"""Tasks of asyncio."""

from __future__ import annotations

import asyncio
from typing import Any

_AGAIN_S = 1.0


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancels tasks that go on for ever, and returns when they have ended, whatever with.

    A cancellation is lost where it comes in the very moment in which something is done that the task waits for by
    `asyncio.wait_for` (Python 3.11; libraries use it): the task would go on. Hence it is repeated, and a task that has long
    work to do at its end is none for this.
    """
    going = set(tasks)
    while going:
        for task in going:
            task.cancel()
        _, going = await asyncio.wait(going, timeout=_AGAIN_S)
