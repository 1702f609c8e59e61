"""A server for harnesses, and how it stops."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Collection

from services.proxy.door import Door, Limits, Serve

_BACKLOG = 2048


class Server:
    """Serves requests on one socket.

    Args:
        serve: answers them.
        limits: of waiting.
    """

    def __init__(self, serve: Serve, limits: Limits) -> None:
        self._serve = serve
        self._limits = limits
        self._doors: set[Door] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening: asyncio.Server | None = None

    @property
    def serving(self) -> int:
        """Requests that are being served."""
        return len(self._tasks)

    async def start(self, listener: socket.socket) -> None:
        """Returns once connections are taken."""
        loop = asyncio.get_running_loop()
        self._listening = await loop.create_server(self._door, sock=listener, backlog=_BACKLOG)

    async def stop(self, within_s: float) -> None:
        """Takes no more requests, lets those that are being served finish for some time, then cancels them, and waits as long
        again for their ends to be said."""
        if self._listening is not None:
            self._listening.close()
        for door in tuple(self._doors):
            door.close()
        for task in await _late(self._tasks, within_s):
            task.cancel()
        await _late(self._tasks, within_s)
        await _late([door.closed for door in self._doors], within_s)

    def _door(self) -> Door:
        return Door(self._serve, self._limits, self._doors, self._tasks)


async def _late(awaited: Collection[asyncio.Future[None]], within_s: float) -> set[asyncio.Future[None]]:
    """Those that are not done in time."""
    return (await asyncio.wait(awaited, timeout=within_s))[1] if awaited else set()
