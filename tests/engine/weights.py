"""The scripted engine's weight updates: the routes and their order, without weights."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

Json = dict[str, Any]


class Weights:
    """State of weight updates.

    Attributes:
        serving: set unless paused; new calls wait for it, whatever the mode; running ones go on.
        version: what `finish_weight_update` named last.
        loaded: `update_info` of every update.
        updating: an update has started and is not finished.
        broken: updates are answered with an error.
        slow_s: seconds before it says which version it has.
        initialised: `init_weight_transfer_engine` was called.
    """

    def __init__(self) -> None:
        self.serving = asyncio.Event()
        self.serving.set()
        self.version = "default"
        self.loaded: list[Json] = []
        self.updating = False
        self.initialised = False
        self.broken = False
        self.slow_s = 0.0

    def add_routes(self, router: web.UrlDispatcher) -> None:
        """Adds the routes under vLLM's names."""
        router.add_post("/pause", self._pause)
        router.add_post("/resume", self._resume)
        router.add_get("/is_paused", self._is_paused)
        router.add_post("/init_weight_transfer_engine", self._init)
        router.add_post("/start_weight_update", self._start)
        router.add_post("/update_weights", self._update)
        router.add_post("/finish_weight_update", self._finish)
        router.add_post("/reset_prefix_cache", self._reset)
        router.add_post("/update_weight_version", self._stamp)
        router.add_get("/weight_info", self._info)

    async def _pause(self, _: web.Request) -> web.Response:
        self.serving.clear()
        return web.json_response({"status": "paused"})

    async def _resume(self, _: web.Request) -> web.Response:
        self.serving.set()
        return web.json_response({"status": "resumed"})

    async def _is_paused(self, _: web.Request) -> web.Response:
        return web.json_response({"is_paused": not self.serving.is_set()})

    async def _init(self, request: web.Request) -> web.Response:
        if "init_info" not in await request.json():
            return web.json_response({"detail": "Missing 'init_info' in request body"}, status=400)
        self.initialised = True
        return web.json_response({"message": "Weight transfer initialized"})

    async def _start(self, _: web.Request) -> web.Response:
        if not self.initialised or self.updating:
            return web.json_response({"error": {"message": "not initialised, or an update is under way"}}, status=500)
        self.updating = True
        return web.json_response({"message": "Weight update started"})

    async def _update(self, request: web.Request) -> web.Response:
        if not self.updating or self.broken:
            return web.json_response({"error": {"message": "no update was started, or scripted to fail"}}, status=500)
        self.loaded.append((await request.json())["update_info"])
        return web.json_response({"message": "Weights updated"})

    async def _finish(self, request: web.Request) -> web.Response:
        if not self.updating:
            return web.json_response({"error": {"message": "no update was started"}}, status=500)
        self.updating = False
        self.version = (await request.json()).get("weight_version") or self.version
        return web.json_response({"message": "Weight update finished"})

    async def _stamp(self, request: web.Request) -> web.Response:
        self.version = (await request.json())["new_version"]
        return web.json_response({"success": True, "new_version": self.version})

    async def _reset(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _info(self, _: web.Request) -> web.Response:
        await asyncio.sleep(self.slow_s)
        return web.json_response({"weight_version": self.version})
