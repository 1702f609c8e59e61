"""Many waits of one and the same length, for the price of one timer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Alarms(Generic[T]):
    """Rings for everything that is not done in time. A timer of its own for each costs more than sending a message does.

    Args:
        after_s: how long each is waited for, in seconds.
        ring: told what was not done.
    """

    def __init__(self, after_s: float, ring: Callable[[T], object]) -> None:
        self._after_s = after_s
        self._ring = ring
        self._waits: dict[int, tuple[float, T]] = {}  # the one that is due first is the first
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None

    def set(self, item: T) -> int:
        """Waits for something from now on. The number that is returned ends that."""
        self._count += 1
        self._waits[self._count] = (time.monotonic() + self._after_s, item)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._after_s, self._look)
        return self._count

    def unset(self, number: int) -> None:
        """It is done, or need not be."""
        self._waits.pop(number, None)

    def _look(self) -> None:
        self._timer = None
        while self._waits:
            number, (due, item) = next(iter(self._waits.items()))
            if (left_s := due - time.monotonic()) > 0:
                self._timer = asyncio.get_running_loop().call_later(left_s, self._look)
                return
            del self._waits[number]
            self._ring(item)
