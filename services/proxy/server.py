"""A server for harnesses, and how it stops."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Collection

from services.proxy.door import Door, Limits, Serve
from shared.alarms import Alarms

_BACKLOG = 2048


class Server:
    """Serves requests on the sockets that it is given.

    Args:
        serve: answers them.
        limits: of waiting.
    """

    def __init__(self, serve: Serve, limits: Limits) -> None:
        self._serve = serve
        self._limits = limits
        self._doors: set[Door] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle = Alarms[Door](limits.idle_s, Door.close)
        self._listening: list[asyncio.Server] = []

    @property
    def serving(self) -> int:
        """Requests that are being served."""
        return len(self._tasks)

    async def start(self, listener: socket.socket) -> None:
        """Returns once connections are taken on one more socket, a TCP or a unix one."""
        loop = asyncio.get_running_loop()
        if listener.family == socket.AF_UNIX:
            server = await loop.create_unix_server(self._door, sock=listener, backlog=_BACKLOG)
        else:
            server = await loop.create_server(self._door, sock=listener, backlog=_BACKLOG)
        self._listening.append(server)

    async def stop(self, within_s: float) -> None:
        """Takes no more requests, lets those that are being served finish for some time, then cancels them, and waits as long
        again for their ends to be said."""
        for server in self._listening:
            server.close()
        for door in tuple(self._doors):
            door.close()
        for task in await _late(self._tasks, within_s):
            task.cancel()
        await _late(self._tasks, within_s)
        await _late([door.closed for door in self._doors], within_s)

    def _door(self) -> Door:
        return Door(self._serve, self._limits, self._doors, self._tasks, self._idle)


async def _late(awaited: Collection[asyncio.Future[None]], within_s: float) -> set[asyncio.Future[None]]:
    """Those that are not done in time."""
    return (await asyncio.wait(awaited, timeout=within_s))[1] if awaited else set()
