"""Waiting for what other processes and background tasks do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

_POLL_S, _LONGEST_POLL_S = 0.005, 0.05  # what is asked often takes from what is waited for


async def until(condition: Callable[[], bool], timeout: float = 60.0) -> None:
    """Returns as soon as the condition holds.

    Raises:
        TimeoutError: it does not after `timeout` seconds.
    """

    async def probe() -> bool:
        return condition()

    await eventually(probe, timeout)


async def eventually(probe: Callable[[], Awaitable[bool]], timeout: float = 60.0) -> None:
    """Returns as soon as the probe says yes.

    Raises:
        TimeoutError: it does not after `timeout` seconds.
    """
    pause = _POLL_S
    async with asyncio.timeout(timeout):
        while not await probe():
            await asyncio.sleep(pause)
            pause = min(1.1 * pause, _LONGEST_POLL_S)
