"""Tasks end, and nobody waits for one that does not."""

from __future__ import annotations

import asyncio

import pytest

from shared.tasks import end


async def for_ever(lost: int) -> None:
    """Loses so many cancellations."""
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            lost -= 1
            if lost < 0:
                raise


@pytest.mark.parametrize("lost", [0, 1])
async def test_a_task_ends_though_a_cancellation_is_lost(lost: int) -> None:
    tasks = [asyncio.create_task(for_ever(n)) for n in (0, lost)]
    await asyncio.sleep(0)
    await end(*tasks)
    assert all(task.cancelled() for task in tasks)


async def test_whatever_a_task_ends_with_is_its_own_affair() -> None:
    async def fail() -> None:
        raise ValueError

    task = asyncio.create_task(fail())
    await asyncio.wait({task})
    await end(task)
    await end()
    assert isinstance(task.exception(), ValueError)
