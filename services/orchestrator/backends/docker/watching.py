"""Watching the containers of a run: all of them first, then what happens to them, and the same after every break."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from aiodocker import Docker

from services.orchestrator.backends.docker.events import Change, listening
from services.orchestrator.backends.docker.view import View, vanished
from services.orchestrator.backends.port import Seen
from shared.errors import SandboxError

log = logging.getLogger(__name__)

_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0

Tell = Callable[[Seen], None]


class Watch:
    """One who watches.

    Args:
        docker, view: the engine and what is in it.
        present: all sandboxes, those that are still being made too.
        tell: takes what is seen.
    """

    def __init__(self, docker: Docker, view: View, present: Callable[[], Awaitable[list[Seen]]], tell: Tell) -> None:
        self._docker, self._view, self._present, self._tell = docker, view, present, tell
        self._alive: set[str] = set()

    async def forever(self) -> None:
        """Watches. What an engine refuses counts as a break: everything is listed anew after a pause."""
        pause_s = _PAUSE_S
        while True:
            try:
                async with listening(self._docker, self._view.run) as changes:
                    await self._catch_up()
                    pause_s = _PAUSE_S
                    async for change in changes:
                        await self._pass_on(change)
            except SandboxError as e:
                log.warning("%s; trying again in %.1f s", e, pause_s)
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    def forget(self, name: str) -> None:
        """The end of that sandbox is no news: its owner removes it."""
        self._alive.discard(name)

    async def _catch_up(self) -> None:
        present = await self._present()
        for name in self._alive - {seen.name for seen in present}:
            self._tell(vanished(name))
        self._alive = {seen.name for seen in present if seen.stage != "ended"}
        for seen in present:
            self._tell(seen)

    async def _pass_on(self, change: Change) -> None:
        name = change.session
        match change.action:
            case "create":
                seen = Seen(name, "boot", where=self._view.where)
            case "start":
                seen = Seen(name, "run", where=self._view.where)
            case "die":
                seen = await self._view.seen(name) or vanished(name)
            case _ if name in self._alive:
                seen = vanished(name)
            case _:
                return
        (self._alive.discard if seen.stage == "ended" else self._alive.add)(name)
        self._tell(seen)
