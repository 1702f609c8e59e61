"""Serves the control routes: FastAPI by uvicorn, in the proxy's own event loop, on a port apart from that of the harnesses."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:  # signals belong to the process, not to this server
        yield


class ControlServer:
    """One application on one socket.

    Args:
        app: with the control routes.
        drain_s: how long requests may go on when it is stopped.
    """

    def __init__(self, app: FastAPI, drain_s: float) -> None:
        logging.getLogger("uvicorn.access").disabled = True  # access_log=False leaves it open to new handlers
        self._server = _Server(
            uvicorn.Config(
                app, ws="none", lifespan="off", log_config=None, access_log=False, server_header=False, proxy_headers=False,
                timeout_graceful_shutdown=max(1, round(drain_s)),
            )
        )  # fmt: skip
        self._serving: asyncio.Task[None] | None = None

    async def start(self, listener: socket.socket) -> None:
        """Returns once requests are served."""
        self._serving = asyncio.create_task(self._server.serve([listener]))
        while not self._server.started:
            if self._serving.done():
                self._serving.result()
            await asyncio.sleep(0.005)

    async def stop(self) -> None:
        """Takes no more requests; returns when none is served any more."""
        if self._serving is not None:
            self._server.should_exit = True
            await self._serving
