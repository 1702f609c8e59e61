"""Ctrl-C and SIGTERM as one cancellation of the main task, so that every context is left in order."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable

INTERRUPTED = 130
"""Exit status after Ctrl-C."""


async def until_signal(work: Awaitable[int], on_interrupt: Callable[[], None]) -> int:
    """Awaits `work`; the first SIGINT or SIGTERM cancels it, later ones are ignored while it cleans up.

    Returns:
        The result of `work`, or 130 after a signal.
    """
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    asked = False

    def ask() -> None:
        nonlocal asked
        if not asked:
            asked = True
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ask)
    try:
        return await task
    except asyncio.CancelledError:
        on_interrupt()
        return INTERRUPTED
