"""Worlds for the tests of this room."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from shared.config import EngineConfig
from tests.engine.scripted import ScriptedEngine
from tests.unit.proxy.world import MakeWorld, World, living_world


@pytest.fixture
async def make_world(scripted_engine: ScriptedEngine) -> AsyncIterator[MakeWorld]:
    """Makes a world whose `ProxyConfig` has the given settings; at most one a test."""
    async with AsyncExitStack() as stack:

        async def make(engine_url: str = "", engine: EngineConfig | None = None, **settings: Any) -> World:
            return await stack.enter_async_context(living_world(scripted_engine, engine_url, engine, **settings))

        yield make


@pytest.fixture
async def world(make_world: MakeWorld) -> World:
    """A world with default settings."""
    return await make_world()
