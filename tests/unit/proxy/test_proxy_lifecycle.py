"""Start and stop."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from shared.store.sessions import Seal
from tests.engine.script import Rule, Script
from tests.unit.proxy.world import World, eventually


async def test_stopping_lets_calls_finish(world: World) -> None:
    base = await world.open()
    world.engine.script = Script(rules=[Rule(delay_s=0.3)])
    call = asyncio.create_task(world.chat(base))
    await eventually(lambda: bool(world.engine.requests))
    await world.proxy.stop()
    assert (await call)[0] == 200
    assert len(world.records) == 1
    assert await world.sessions.replicas.in_flight() == 0
    with pytest.raises(aiohttp.ClientConnectorError):
        await world.chat(base)


async def test_stopping_cancels_what_takes_longer_than_the_drain_and_marks_it_lost(world: World) -> None:
    base = await world.open()
    world.engine.script = Script(rules=[Rule(text="abc", delay_s=30.0)])
    call = asyncio.create_task(world.chat(base))
    await eventually(lambda: bool(world.engine.requests))
    await world.proxy.stop()
    assert (await call)[0] == 503
    await eventually(lambda: bool(world.engine.finished))
    assert await world.sessions.seal("r1-a1", 0.0) == Seal(calls=1, lost=[1])


async def test_stopping_twice_is_stopping_once(world: World) -> None:
    await world.proxy.stop()
    await world.proxy.stop()


async def test_a_proxy_says_that_it_lives_again_and_again(world: World) -> None:
    await eventually(lambda: world.sessions.heartbeats >= 3)
