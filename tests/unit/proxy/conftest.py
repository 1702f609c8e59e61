"""Worlds for the tests of this room."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import fakeredis
import pytest

from services.proxy.service import ProxyService
from shared.config import Config, EngineConfig, ProxyConfig, RunConfig
from shared.store.blobs import Blobs
from tests.engine.scripted import ScriptedEngine
from tests.unit.proxy.world import KEY, MakeWorld, TroubledBus, TroubledSessions, World


@pytest.fixture
async def make_world(scripted_engine: ScriptedEngine) -> AsyncIterator[MakeWorld]:
    """Makes a world whose `ProxyConfig` has the given settings; at most one a test."""
    made: list[World] = []

    async def make(engine_url: str = "", engine: EngineConfig | None = None, **settings: Any) -> World:
        config = Config(
            run=RunConfig(id="run1"),
            engine=engine or EngineConfig(url=engine_url or scripted_engine.url),
            proxy=ProxyConfig(**{"drain_s": 1.0, "hold_s": 0.3} | settings),
        )
        store = fakeredis.FakeAsyncRedis()
        bus, sessions, blobs = TroubledBus(), TroubledSessions(store, "run1"), Blobs(store, "run1")
        proxy = ProxyService(config, bus, sessions, blobs, control_key=KEY)
        await proxy.start()
        made.append(World(config, scripted_engine, bus, sessions, blobs, proxy, aiohttp.ClientSession()))
        return made[-1]

    yield make
    for world in made:
        world.bus.free.set()
        await world.http.close()
        await world.proxy.stop()


@pytest.fixture
async def world(make_world: MakeWorld) -> World:
    """A world with default settings."""
    return await make_world()
