"""Where runners in containers fetch their work from while tasks are checked: a proxy's routes for that, and no others."""

from __future__ import annotations

import asyncio
import secrets
import shutil
from pathlib import Path

import msgspec
from aiohttp import web

from services.orchestrator.backends.port import Box
from services.orchestrator.depot import pack
from services.proxy.boxes import BOXES, SPEC
from services.proxy.listening import listen_unix, remove_unix

SOCKET = "proxy.sock"


class Counter:
    """Packages on a unix socket.

    Args:
        top: folder for both, which is made.

    Attributes:
        socket: path of it.
    """

    def __init__(self, top: Path) -> None:
        self._top = top
        self._boxes = self._top / "boxes"
        self.socket = str(self._top / "socket" / SOCKET)
        app = web.Application()
        self._boxes.mkdir(parents=True)
        app.router.add_static(BOXES, self._boxes)
        self._runner = web.AppRunner(app, access_log=None)

    async def start(self) -> None:
        """Returns once it is served.

        Raises:
            ConfigError: the socket cannot be made.
        """
        await self._runner.setup()
        await web.SockSite(self._runner, listen_unix(self.socket)).start()

    async def put(self, box: Box) -> str:
        """See `Depot.put`.

        Raises:
            TaskError: a folder is too large, or cannot be read.
        """
        ticket = secrets.token_urlsafe(32)
        folder = self._boxes / ticket
        folder.mkdir()
        for name, source in box.packages.items():
            (folder / name).write_bytes(await asyncio.to_thread(pack, source))
        (folder / SPEC).write_bytes(msgspec.json.encode(box.spec))
        return ticket

    async def stop(self) -> None:
        """Ends it, and removes all that it had."""
        await self._runner.cleanup()
        remove_unix(self.socket)
        shutil.rmtree(self._top, ignore_errors=True)
