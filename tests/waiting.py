"""Waiting for what other processes and background tasks do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

_POLL_S = 0.005


async def until(condition: Callable[[], bool], timeout: float = 20.0) -> None:
    """Returns as soon as the condition holds.

    Raises:
        TimeoutError: it does not after `timeout` seconds.
    """

    async def probe() -> bool:
        return condition()

    await eventually(probe, timeout)


async def eventually(probe: Callable[[], Awaitable[bool]], timeout: float = 20.0) -> None:
    """Returns as soon as the probe says yes.

    Raises:
        TimeoutError: it does not after `timeout` seconds.
    """
    async with asyncio.timeout(timeout):
        while not await probe():  # noqa: ASYNC110 - what another process does sets no event here
            await asyncio.sleep(_POLL_S)
