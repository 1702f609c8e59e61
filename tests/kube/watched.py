"""What a backend's watch tells, for tests to wait on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from services.orchestrator.backends.port import Backend, Seen

WITHIN_S = 150.0
Told = Callable[[Callable[[list[Seen]], bool]], Awaitable[list[Seen]]]


@asynccontextmanager
async def heard(backend: Backend) -> AsyncIterator[Told]:
    """What a watch tells, until a condition holds of all that it told."""
    news: list[Seen] = []
    more = asyncio.Event()

    async def listen() -> None:
        async for seen in backend.watch():
            news.append(seen)
            more.set()

    async def until(enough: Callable[[list[Seen]], bool]) -> list[Seen]:
        async with asyncio.timeout(WITHIN_S):
            while not enough(news):
                more.clear()
                await more.wait()
        return news

    task = asyncio.create_task(listen())
    try:
        yield until
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def ends(news: list[Seen]) -> dict[str, Seen]:
    return {seen.name: seen for seen in news if seen.stage == "ended"}


def running(news: list[Seen]) -> set[str]:
    return {seen.name for seen in news if seen.stage == "run"}
