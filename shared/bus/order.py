"""Several readings as one. Pure but for what they read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from heapq import heapify, heappop, heappush
from typing import TypeVar

T = TypeVar("T")


async def in_order(readings: Sequence[AsyncIterator[tuple[float, T]]]) -> AsyncIterator[tuple[float, T]]:
    """What several readings give, each in the order of its times, in the order of all times."""
    heads: list[tuple[float, int, T]] = []
    for number, reading in enumerate(readings):
        async for at, item in reading:
            heads.append((at, number, item))
            break
    heapify(heads)
    while heads:
        at, number, item = heappop(heads)
        yield at, item
        async for later, following in readings[number]:
            heappush(heads, (later, number, following))
            break
