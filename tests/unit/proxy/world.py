"""A proxy between a scripted engine and the in-memory twins of bus and store, and a harness that talks to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import fakeredis

from services.proxy.service import ProxyService
from shared.bus.memory import MemoryBus
from shared.config import Config, EngineConfig, ProxyConfig, RunConfig, TrainerConfig
from shared.errors import BusUnavailable, StoreUnavailable
from shared.events import CallRecorded, Message, SessionSealed, decode
from shared.store.blobs import Blobs
from shared.store.boxes import Boxes
from shared.store.sessions import Ended, Sessions
from tests.engine.scripted import ScriptedEngine

KEY = "control-key"
Json = dict[str, Any]


class TroubledBus(MemoryBus):
    """A bus that can be down, or slow until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.down = False
        self.free = asyncio.Event()
        self.free.set()
        self.waiting = asyncio.Event()

    async def publish(self, message: Message) -> None:
        self.waiting.set()
        await self.free.wait()
        if self.down:
            raise BusUnavailable("the bus is down")
        await super().publish(message)

    def messages(self) -> list[Message]:
        """All that is durable."""
        return [decode(d.data) for d in self.broker.kept]


class TroubledSessions(Sessions):
    """A store that can be down, and counts heartbeats."""

    down = False
    heartbeats = 0

    async def heartbeat(self, proxy_id: str) -> None:
        self.heartbeats += 1
        await super().heartbeat(proxy_id)

    async def begin(self, secret: str, proxy_id: str) -> Any:
        if self.down:
            raise StoreUnavailable("the store is down")
        return await super().begin(secret, proxy_id)

    async def end_all(self, ended: Sequence[Ended]) -> None:
        if self.down:
            raise StoreUnavailable("the store is down")
        await super().end_all(ended)


@dataclass
class World:
    """Everything around one proxy."""

    config: Config
    engine: ScriptedEngine
    bus: TroubledBus
    sessions: TroubledSessions
    blobs: Blobs
    boxes: Boxes
    proxy: ProxyService
    http: aiohttp.ClientSession
    store: fakeredis.FakeAsyncRedis

    async def wipe(self) -> None:
        """Takes all that the store has."""
        await self.store.flushall()

    def another_proxy(self) -> ProxyService:
        """One more proxy of the same run; the caller starts and stops it."""
        return ProxyService(self.config, self.bus, self.sessions, self.blobs, self.boxes, control_key=KEY)

    async def open(self, session_id: str = "r1-a1", **sampling: Any) -> str:
        """Opens a session; gives the base URL for its harness."""
        meta = {"rollout_id": session_id.rpartition("-a")[0], "attempt": 1, "group_id": "g1", "purpose": "train"}
        path = f"{self.proxy.control_url}/control/sessions/{session_id}"
        async with self.http.put(path, json=meta | {"sampling": sampling}, headers=self.control) as response:
            assert response.status == 200, await response.text()
            return f"{self.proxy.url}{(await response.json())['path']}"

    async def seal(self, session_id: str = "r1-a1") -> Json:
        """Seals a session; gives the counts."""
        url = f"{self.proxy.control_url}/control/sessions/{session_id}/seal"
        async with self.http.post(url, headers=self.control) as response:
            assert response.status == 200, await response.text()
            return dict(await response.json())

    async def chat(self, base: str, messages: list[Json] | str = "hi", **fields: Any) -> tuple[int, Json]:
        """One call that is not streamed: status and body."""
        async with self.http.post(f"{base}/v1/chat/completions", json=body(messages, **fields)) as response:
            return response.status, json.loads(await response.read())

    def stream(self, base: str, messages: list[Json] | str = "hi", **fields: Any) -> Any:
        """One streamed call, as aiohttp's context manager."""
        return self.http.post(f"{base}/v1/chat/completions", json=body(messages, stream=True, **fields))

    async def close(self, version: int = 0) -> None:
        """The engine takes no further calls."""
        await self.sessions.replicas.close(self.config.engine.addresses[0], version)

    async def reopen(self, version: int) -> None:
        """The engine takes calls again, under a version."""
        await self.sessions.replicas.open(self.config.engine.addresses[0], version)

    @property
    def control(self) -> dict[str, str]:
        return {"authorization": f"Bearer {KEY}"}

    @property
    def records(self) -> list[CallRecorded]:
        return [m for m in self.bus.messages() if isinstance(m, CallRecorded)]

    @property
    def seals(self) -> list[SessionSealed]:
        return [m for m in self.bus.messages() if isinstance(m, SessionSealed)]


@asynccontextmanager
async def living_world(
    engine: ScriptedEngine,
    engine_url: str = "",
    about: EngineConfig | None = None,
    trainer: TrainerConfig | None = None,
    **settings: Any,
) -> AsyncIterator[World]:
    """A world whose `ProxyConfig` has the given settings, for as long as the context lasts."""
    config = Config(
        run=RunConfig(id="run1"),
        engine=about or EngineConfig(url=engine_url or engine.url),
        trainer=trainer or TrainerConfig(),
        proxy=ProxyConfig(**{"drain_s": 1.0, "hold_s": 0.3} | settings),
    )
    store = fakeredis.FakeAsyncRedis()
    bus, sessions, blobs = TroubledBus(), TroubledSessions(store, "run1"), Blobs(store, "run1")
    boxes = Boxes(store, "run1")
    proxy = ProxyService(config, bus, sessions, blobs, boxes, control_key=KEY)
    await proxy.start()
    try:
        async with aiohttp.ClientSession() as http:
            yield World(config, engine, bus, sessions, blobs, boxes, proxy, http, store)
    finally:
        bus.free.set()
        await proxy.stop()


def body(messages: list[Json] | str, **fields: Any) -> Json:
    """A chat request."""
    said = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
    return {"model": "any-name", "messages": said} | fields


async def eventually(condition: Callable[[], bool] | Callable[[], Awaitable[bool]], within_s: float = 5.0) -> None:
    """Returns once a condition holds; fails if it does not in time."""
    async with asyncio.timeout(within_s):
        while True:
            found = condition()
            if found if isinstance(found, bool) else await found:
                return
            await asyncio.sleep(0.005)


MakeWorld = Callable[..., Awaitable[World]]
