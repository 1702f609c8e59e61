"""What a backend tells of sandboxes, handed to those who wait for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from services.orchestrator.backends.port import Backend, Seen
from shared.errors import SandboxError
from shared.tasks import end

log = logging.getLogger(__name__)

AGAIN_S = 1.0
News = asyncio.Queue[Seen | None]
"""How a sandbox was seen, in order; None: look again, its end was asked for."""


class Watcher:
    """Listens to one backend for all attempts."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._last: dict[str, Seen] = {}
        self._followers: dict[str, News] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to listen, in the background."""
        self._task = asyncio.create_task(self._listen())

    async def stop(self) -> None:
        """Ends listening. Doing it again changes nothing."""
        if self._task:
            await end(self._task)

    @contextmanager
    def follow(self, name: str) -> Iterator[News]:
        """What is told of a sandbox, from how it was last seen on."""
        news: News = asyncio.Queue()
        self._followers[name] = news
        if name in self._last:
            news.put_nowait(self._last[name])
        try:
            yield news
        finally:
            del self._followers[name]

    def nudge(self, name: str) -> None:
        """Tells whoever follows a sandbox that its end was asked for."""
        if name in self._followers:
            self._followers[name].put_nowait(None)

    def tell(self, seen: Seen) -> None:
        """Hands on how a sandbox was seen."""
        self._last[seen.name] = seen
        if seen.name in self._followers:
            self._followers[seen.name].put_nowait(seen)

    def forget(self, name: str) -> None:
        """Keeps nothing more of a sandbox that was cleared away."""
        self._last.pop(name, None)

    def forget_all_but(self, wanted: Callable[[str], bool]) -> None:
        """Keeps nothing of sandboxes that are not wanted. Late news of some come after they were forgotten."""
        self._last = {name: seen for name, seen in self._last.items() if wanted(name)}

    async def _listen(self) -> None:
        while True:
            try:
                async for seen in self._backend.watch():
                    self.tell(seen)
            except SandboxError as e:
                log.warning("sandboxes cannot be watched at the moment: %s", e)
            except Exception:  # a defect of ours must not make all rollouts wait for news that never come
                log.exception("sandboxes cannot be watched at the moment")
            await asyncio.sleep(AGAIN_S)
