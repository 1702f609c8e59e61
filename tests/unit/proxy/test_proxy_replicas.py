"""Several engines behind one gateway: who takes a call, what it is stamped with, and what becomes of calls when one is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest

from services.dev.servers import free_port
from shared.config import EngineConfig, PaceConfig, PushConfig, TrainerConfig
from shared.events import WeightsLoaded, WeightsPublished
from tests.engine.script import Rule, Script
from tests.engine.scripted import ScriptedEngine
from tests.unit.proxy.world import MakeWorld, World, eventually, living_world


@pytest.fixture
async def other_engine() -> AsyncIterator[ScriptedEngine]:
    engine = ScriptedEngine()
    await engine.start()
    yield engine
    await engine.stop()


@pytest.fixture
async def two(make_world: MakeWorld, scripted_engine: ScriptedEngine, other_engine: ScriptedEngine) -> World:
    """A world with two engines, which serve versions 3 and 4."""
    world = await make_world(engine=EngineConfig(urls=[scripted_engine.url, other_engine.url]), hold_s=3.0)
    await world.sessions.replicas.open(scripted_engine.url, 3)
    await world.sessions.replicas.open(other_engine.url, 4)
    return world


async def test_rollouts_are_spread_and_every_call_names_its_engine_and_version(
    two: World, scripted_engine: ScriptedEngine, other_engine: ScriptedEngine
) -> None:
    bases = [await two.open(f"r{n}-a1") for n in range(4)]
    for _ in range(3):
        assert [status for status, _ in await asyncio.gather(*(two.chat(base) for base in bases))] == [200] * 4
    assert len(scripted_engine.requests) == len(other_engine.requests) == 6
    versions = {scripted_engine.url: 3, other_engine.url: 4}
    assert [r.weight_version_start for r in two.records] == [versions[r.engine] for r in two.records]
    assert len({(r.session_id, r.engine) for r in two.records}) == 4  # a rollout stays at its engine


async def test_no_call_fails_when_an_engine_is_gone(
    two: World, scripted_engine: ScriptedEngine, other_engine: ScriptedEngine
) -> None:
    bases = [await two.open(f"r{n}-a1") for n in range(4)]
    await asyncio.gather(*(two.chat(base) for base in bases))
    await other_engine.stop()
    assert [status for status, _ in await asyncio.gather(*(two.chat(base) for base in bases))] == [200] * 4
    assert {(r.engine, r.weight_version_start) for r in two.records[4:]} == {(scripted_engine.url, 3)}
    assert all(r.seq == 2 for r in two.records[4:])

    async def left() -> bool:  # what calls have come to is noted a little later
        return await two.sessions.replicas.in_flight(other_engine.url) == 0

    await eventually(left)


async def test_a_call_in_splice_mode_is_prepared_and_served_by_another_engine(
    make_world: MakeWorld, scripted_engine: ScriptedEngine, other_engine: ScriptedEngine
) -> None:
    about = EngineConfig(urls=[other_engine.url, scripted_engine.url])
    world = await make_world(engine=about, mode="splice", hold_s=3.0)
    base = await world.open()
    _, first = await world.chat(base)
    await other_engine.stop()
    talk = [{"role": "user", "content": "hi"}, first["choices"][0]["message"], {"role": "user", "content": "go on"}]
    status, _ = await world.chat(base, talk)
    assert status == 200
    assert [(r.engine, r.spliced, r.fork) for r in world.records] == [
        (other_engine.url, False, ""), (scripted_engine.url, True, ""),
    ]  # fmt: skip


async def test_a_call_waits_for_an_engine_that_comes_back(make_world: MakeWorld) -> None:
    port, late = free_port(), ScriptedEngine()
    world = await make_world(f"http://127.0.0.1:{port}", hold_s=5.0)
    call = asyncio.create_task(world.chat(await world.open()))
    assert not (await asyncio.wait({call}, timeout=0.2))[0]
    await late.start(port)
    try:
        assert (await call)[0] == 200
    finally:
        await late.stop()
    assert [(r.seq, r.delivery) for r in world.records] == [(1, "sent")]


async def test_an_engine_that_is_gone_for_too_long_is_503_and_nothing_was_sampled(make_world: MakeWorld) -> None:
    world = await make_world(f"http://127.0.0.1:{free_port()}", hold_s=0.2)
    base = await world.open()
    status, answer = await world.chat(base)
    assert status == 503
    assert "cannot be reached" in answer["error"]["message"]
    assert await world.seal() == {"calls": 1, "errored": [1], "cut": [], "lost": []}


async def test_what_was_begun_is_never_asked_of_another_engine(
    two: World, scripted_engine: ScriptedEngine, other_engine: ScriptedEngine
) -> None:
    for engine in (scripted_engine, other_engine):
        engine.script = Script(rules=[Rule(text="a long reply", drop_after=3)])
    base = await two.open()
    with pytest.raises(aiohttp.ClientPayloadError):
        async with two.stream(base) as response:
            await response.read()
    await eventually(lambda: len(two.records) == 1)
    assert len(scripted_engine.requests) + len(other_engine.requests) == 1
    assert two.records[0].delivery == "cut"


async def test_a_closed_engine_gets_no_call_while_the_other_serves(
    two: World, scripted_engine: ScriptedEngine, other_engine: ScriptedEngine
) -> None:
    bases = [await two.open(f"r{n}-a1") for n in range(4)]
    await asyncio.gather(*(two.chat(base) for base in bases))
    await two.sessions.replicas.close(scripted_engine.url, 3)
    before = len(scripted_engine.requests)
    assert [status for status, _ in await asyncio.gather(*(two.chat(base) for base in bases))] == [200] * 4
    assert len(scripted_engine.requests) == before
    await two.sessions.replicas.open(scripted_engine.url, 5)
    await two.sessions.replicas.close(other_engine.url, 5)
    await two.chat(bases[0])
    assert (two.records[-1].engine, two.records[-1].weight_version_start) == (scripted_engine.url, 5)


async def test_every_engine_comes_back_with_what_the_bus_knows_of_it(
    two: World, scripted_engine: ScriptedEngine, other_engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in (0, 1, 2):
        await two.bus.publish(WeightsPublished(run_id="run1", version=version))
        await two.bus.publish(WeightsLoaded(run_id="run1", version=version, replica=1))
    await two.bus.publish(WeightsLoaded(run_id="run1", version=1))
    scripted_engine.weights.version, other_engine.weights.version = "1", "2"
    await two.wipe()

    async def known() -> bool:
        return await two.sessions.replicas.unknown([other_engine.url]) == []

    await eventually(known)
    assert {name: state.version for name, state in (await two.sessions.replicas.look()).items()} == {other_engine.url: 2}
    assert (await two.chat(await two.open("r9-a1")))[0] == 200
    assert (two.records[-1].engine, two.records[-1].weight_version_start) == (other_engine.url, 2)


async def test_tokens_are_counted_by_any_engine(two: World, scripted_engine: ScriptedEngine) -> None:
    base = await two.open()
    await scripted_engine.stop()
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    async with two.http.post(f"{base}/v1/messages/count_tokens", json=body) as response:
        assert (response.status, (await response.json())["input_tokens"] > 0) == (200, True)
    async with two.http.get(f"{two.proxy.control_url}/readyz") as response:
        assert response.status == 200


@pytest.mark.parametrize(("calls", "end"), [("drain", 3), ("hold", 4)])
async def test_a_reply_that_an_engine_held_through_a_push_is_of_two_versions(
    scripted_engine: ScriptedEngine, calls: str, end: int
) -> None:
    push = TrainerConfig(push=PushConfig(calls=calls), pace=PaceConfig(max_staleness=1))  # type: ignore[arg-type]
    scripted_engine.script = Script(rules=[Rule(text="word word word", token_delay_s=0.03)])
    async with living_world(scripted_engine, trainer=push) as world:
        await world.reopen(3)
        call = asyncio.create_task(world.chat(await world.open()))
        await eventually(lambda: bool(scripted_engine.requests))
        await world.close(4 if calls == "hold" else 3)
        assert (await call)[0] == 200
        (record,) = world.records
        assert (record.weight_version_start, record.weight_version_end) == (3, end)
