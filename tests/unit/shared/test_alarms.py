"""Waits of one length ring in their order, and only those that nobody ended."""

from __future__ import annotations

import asyncio
import time

from shared.alarms import Alarms


async def test_what_is_not_done_in_time_rings_and_nothing_else() -> None:
    rung: list[str] = []
    alarms = Alarms[str](0.05, rung.append)
    first, _, third = (alarms.set(name) for name in ("first", "second", "third"))
    alarms.unset(first)
    await asyncio.sleep(0)
    alarms.unset(third)
    await asyncio.sleep(0.1)
    assert rung == ["second"]
    alarms.unset(third)


async def test_each_is_waited_for_as_long_as_the_others() -> None:
    rung, last = list[tuple[float, float]](), asyncio.Event()

    def ring(began: float) -> None:
        rung.append((began, time.monotonic()))
        if len(rung) == 4:
            last.set()

    alarms = Alarms[float](0.05, ring)
    for _ in range(4):
        alarms.set(time.monotonic())
        await asyncio.sleep(0.02)
    await last.wait()
    assert [began for began, _ in rung] == sorted(began for began, _ in rung)
    assert all(at - began >= 0.05 for began, at in rung)


async def test_one_that_rings_may_begin_another_wait() -> None:
    rung, last = list[int](), asyncio.Event()

    def ring(number: int) -> None:
        rung.append(number)
        if number < 3:
            alarms.set(number + 1)
        else:
            last.set()

    alarms = Alarms[int](0.005, ring)
    alarms.set(1)
    await last.wait()
    assert rung == [1, 2, 3]
