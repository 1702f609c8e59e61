"""What one process says of itself, and what each path of its small server answers."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections import deque
from collections.abc import Awaitable, Callable
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

import msgspec

from shared.errors import ForgeError
from shared.events import Message, RolloutFailed
from shared.watch import said
from shared.watch.health import READY_S, Health
from shared.watch.meters import Meters
from shared.watch.word import Failure, Sample, Word, id_of

log = logging.getLogger(__name__)

ALIVE, READY, METRICS, STATUS = "/healthz", "/readyz", "/metrics", "/status"
PATHS = (ALIVE, READY, METRICS, STATUS)

JSON = "application/json"
_FAILURES = 20

Source = Callable[[], Awaitable[None]]
"""Reads what is not counted as it happens (a queue's length) into the meters."""


class Page(NamedTuple):
    """An answer over HTTP."""

    status: int
    content_type: str
    body: bytes


class Watch:
    """What a service counts, what it depends on, and how that is told.

    Args:
        service: name of the service.
        run_id: of the run that it serves.

    Attributes:
        meters: its counts.
        health: what it depends on.
        sources: asked before anything is told.
        url: where it tells; empty until it listens.
    """

    def __init__(self, service: str, run_id: str = "") -> None:
        self.service, self.run_id = service, run_id
        self.meters, self.health = Meters(service), Health()
        self.sources: list[Source] = []
        self.url = ""
        self._began = time.time()
        self._failures: deque[Failure] = deque(maxlen=_FAILURES)
        self.meters.set("info", 1, own_version())

    @property
    def id(self) -> str:
        """Tells this process from all others of the run."""
        return id_of(self.service, socket.gethostname(), os.getpid())

    def published(self, message: Message) -> None:
        """Counts a message of this service."""
        said.count(self.meters, message)
        if type(message) is RolloutFailed:
            about = (message.rollout_id, message.attempt, message.reason, message.stage, message.detail, message.final)
            self._failures.append(Failure(message.at, *about))

    async def answer(self, path: str) -> Page:
        """What a path of `PATHS` says. Nothing of it is secret.

        Raises:
            KeyError: there is no such path.
        """
        return await _ANSWERS[path](self)

    async def word(self) -> Word:
        """All of it at once, for a person."""
        missing = await self._refreshed()
        metrics = [
            Sample(metric.short, list(labels), value)
            for metric, values in self.meters.values() if metric.short != "step_metric"
            for labels, value in values.items()
        ]  # fmt: skip
        return Word(
            service=self.service, host=socket.gethostname(), pid=os.getpid(), version=own_version(), url=self.url,
            began=self._began, at=time.time(), missing=missing, metrics=metrics, failures=list(self._failures),
        )  # fmt: skip

    async def _refreshed(self) -> dict[str, str]:
        missing = await self.health.missing()
        self.meters.set("ready", not missing)
        if not missing:  # what cannot be read now stands where it stood
            await self._read_sources()
        return missing

    async def _read_sources(self) -> None:
        try:
            async with asyncio.timeout(READY_S):
                for source in self.sources:
                    await source()
        except (ForgeError, TimeoutError) as e:
            log.warning("not all that is counted could be read: %s", str(e) or f"it took over {READY_S:g} s")

    async def _alive(self) -> Page:
        return Page(200, JSON, b'{"status":"ok"}')

    async def _ready(self) -> Page:
        missing = await self.health.missing()
        return Page(503 if missing else 200, JSON, msgspec.json.encode({"ready": not missing, "missing": missing}))

    async def _metrics(self) -> Page:
        from shared.watch.page import CONTENT_TYPE, page

        await self._refreshed()
        return Page(200, CONTENT_TYPE, page(self.meters, self.run_id, self.service))

    async def _status(self) -> Page:
        return Page(200, JSON, msgspec.json.encode(await self.word()))


def own_version() -> str:
    """Of OpenForgeRL, as it is installed."""
    try:
        return version("openforgerl")
    except PackageNotFoundError:
        return "unknown"


_ANSWERS: dict[str, Callable[[Watch], Awaitable[Page]]] = {
    ALIVE: Watch._alive,
    READY: Watch._ready,
    METRICS: Watch._metrics,
    STATUS: Watch._status,
}
