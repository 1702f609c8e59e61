"""Pushes to several engines: one after another, past those that fail, and to those that come back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import fakeredis
import msgspec
import pytest

from services.trainer.books.files import RunFiles
from services.trainer.ports import LearnerSettings
from services.trainer.thread import LearnerThread
from services.trainer.tools import Tools
from services.trainer.weights.fleet import Fleet
from services.trainer.weights.publish import Publisher
from services.trainer.weights.pushed import checksum
from shared.bus.memory import MemoryBus
from shared.config import Config
from shared.errors import ConfigError, EngineError
from shared.events import Message, WeightsFailed, WeightsLoaded, decode
from shared.store.sessions import Begun, Sessions
from tests.engine.scripted import ScriptedEngine
from tests.unit.trainer.twins import StubLearner
from tests.waiting import eventually, until


@dataclass
class Engines:
    """Scripted engines, a publisher, and what its run has."""

    engines: list[ScriptedEngine]
    publisher: Publisher
    learner: StubLearner
    sessions: Sessions
    bus: MemoryBus
    fleet: Fleet
    folder: Path
    ran: list[ScriptedEngine] = field(default_factory=list)

    def seen(self, kind: type[Message]) -> list[Any]:
        return [m for m in (decode(d.data) for d in self.bus.broker.kept) if isinstance(m, kind)]

    async def open(self) -> list[str]:
        return [name for name, state in (await self.sessions.replicas.look()).items() if state.open]

    async def versions(self) -> list[int]:
        table = await self.sessions.replicas.look()
        return [table[e.url].version for e in self.engines if table[e.url].open]

    async def restart(self, number: int) -> None:
        """An engine comes back without the weights that it had."""
        port = urlsplit(self.engines[number].url).port
        self.engines[number] = ScriptedEngine()
        await self.engines[number].start(port or 0)
        self.ran.append(self.engines[number])


MakeEngines = Callable[..., Any]


@pytest.fixture
async def make_engines(tmp_path: Path) -> AsyncIterator[MakeEngines]:
    made: list[Engines] = []

    async def make(count: int = 2, patience_s: float = 3.0, hold_s: float = 3.0, **trainer: Any) -> Engines:
        engines = [ScriptedEngine() for _ in range(count)]
        for engine in engines:
            await engine.start()
        push = {"watch_s": 0.03} | trainer.pop("push", {})
        tree = {
            "run": {"id": "run-1", "root": str(tmp_path)}, "proxy": {"hold_s": hold_s}, "trainer": {"push": push, **trainer},
            "engine": {"urls": [e.url for e in engines], "start_timeout_s": patience_s},
        }  # fmt: skip
        config, bus, sessions = msgspec.convert(tree, Config), MemoryBus(), Sessions(fakeredis.FakeAsyncRedis(), "run-1")
        fleet, files = Fleet(config.engine.addresses, "policy"), RunFiles(tmp_path / "run-1")
        tools = Tools(
            config=config, bus=bus, sessions=sessions, engine=fleet, files=files, thread=LearnerThread(),
            desk=cast(Any, None), history=cast(Any, None), summary=cast(Any, None), factory=cast(Any, None),
        )  # fmt: skip
        await sessions.heartbeat("p")
        learner = StubLearner(tmp_path, LearnerSettings())
        made.append(Engines(engines, Publisher(tools, 256), learner, sessions, bus, fleet, tmp_path / "run-1", list(engines)))
        return made[-1]

    yield make
    for world in made:
        await world.fleet.close()
        for engine in world.ran:
            await engine.stop()


async def test_one_engine_after_another_gets_new_weights_and_one_always_takes_calls(make_engines: MakeEngines) -> None:
    world = await make_engines(3)
    await world.publisher.publish(world.learner, 0)
    fewest, done = 3, asyncio.Event()

    async def watch() -> None:
        nonlocal fewest
        while not done.is_set():
            fewest = min(fewest, len(await world.open()))
            await asyncio.sleep(0)

    watching = asyncio.create_task(watch())
    await world.publisher.publish(world.learner, 1)
    done.set()
    await watching
    assert fewest == 2
    assert await world.versions() == [1, 1, 1]
    assert [e.weights.version for e in world.engines] == ["1", "1", "1"]
    assert [(m.version, m.replica) for m in world.seen(WeightsLoaded)] == [(v, n) for v in (0, 1) for n in range(3)]
    assert all(e.weights.serving.is_set() for e in world.engines)


async def test_an_engine_that_refuses_weights_is_out_until_it_takes_them(make_engines: MakeEngines) -> None:
    world = await make_engines()
    await world.publisher.publish(world.learner, 0)
    world.engines[0].weights.broken = True
    await world.publisher.publish(world.learner, 1)
    assert await world.open() == [world.engines[1].url]
    assert world.engines[0].weights.serving.is_set()  # a failed push leaves nothing paused
    (failed,) = world.seen(WeightsFailed)
    assert (failed.version, failed.replica, "scripted to fail" in failed.error) == (1, 0, True)
    async with world.publisher.watching():
        await asyncio.sleep(0.2)
        assert len(world.seen(WeightsFailed)) == 1  # it is told once
        world.engines[0].weights.broken = False
        await until(lambda: world.engines[0].weights.version == "1")
        await eventually(lambda: _all_open(world, 2))
    assert await world.versions() == [1, 1]


async def _all_open(world: Engines, count: int) -> bool:
    return len(await world.open()) == count


async def test_an_engine_that_was_restarted_gets_the_newest_weights_before_it_serves(make_engines: MakeEngines) -> None:
    world = await make_engines()
    await world.publisher.publish(world.learner, 0)
    await world.publisher.publish(world.learner, 7)
    async with world.publisher.watching():
        await world.engines[1].stop()
        await eventually(lambda: _all_open(world, 1))
        await world.publisher.check_served(7)  # nothing was sampled from the wrong weights
        await world.restart(1)
        await eventually(lambda: _all_open(world, 2))
        assert world.engines[1].weights.version == "7"
        assert [Path(u["path"]).name for u in world.engines[1].weights.loaded] == ["v7.safetensors"]
        await world.publisher.check_served(7)
    assert "did not answer" in world.seen(WeightsFailed)[0].error


async def test_what_adapters_are_added_to_is_written_once_and_a_restarted_engine_gets_both(
    make_engines: MakeEngines,
) -> None:
    world = await make_engines(1, lora={"lora_rank": 8})
    for version in (0, 7):
        await world.publisher.publish(world.learner, version)
    push = world.folder / "weights" / "push"
    base, adapters = push / "base.safetensors", push / "v7.safetensors"
    assert (base.read_text(), adapters.read_text()) == ("base 0", "adapters 0")
    async with world.publisher.watching():
        await world.engines[0].stop()
        await world.restart(0)
        await eventually(lambda: _all_open(world, 1))
        await until(lambda: bool(world.engines[0].weights.loaded))
    names = {"path": adapters, "sha256": checksum(adapters), "base": base, "base_sha256": checksum(base)}
    assert world.engines[0].weights.loaded == [{key: str(value) for key, value in names.items()}]


async def test_engines_that_do_not_prove_what_calls_would_be_stamped_with_take_none_until_they_do(
    make_engines: MakeEngines,
) -> None:
    world = await make_engines(4)
    proves, fresh, gone, unknown = world.engines
    told = {engine.url: 2 for engine in (proves, fresh, gone)}  # by the bus, of engines of an earlier stack
    await world.sessions.replicas.restore(told)
    proves.weights.version = "2"
    await gone.stop()
    await world.publisher.shut_unproven(2)
    assert await world.open() == [proves.url]
    await world.sessions.replicas.restore(told | {unknown.url: 2})  # a proxy that starts later
    assert await world.open() == [proves.url]
    await world.restart(2)
    await world.publisher.publish(world.learner, 2)
    assert await world.versions() == [2, 2, 2, 2]


async def test_an_engine_that_misses_a_push_is_brought_to_the_next(make_engines: MakeEngines) -> None:
    world = await make_engines()
    await world.publisher.publish(world.learner, 0)
    await world.engines[0].stop()
    await world.publisher.publish(world.learner, 1)
    assert await world.versions() == [1]
    await world.restart(0)
    await world.publisher.publish(world.learner, 2)
    assert await world.versions() == [2, 2]


async def test_calls_served_by_a_restarted_engine_before_that_was_noticed_end_the_step(make_engines: MakeEngines) -> None:
    world = await make_engines()
    await world.publisher.publish(world.learner, 0)
    world.engines[1].weights.version = "default"
    with pytest.raises(EngineError, match="took calls before that was noticed"):
        await world.publisher.check_served(0)
    assert await world.open() == [world.engines[0].url]


async def test_a_run_waits_for_its_only_engine(make_engines: MakeEngines) -> None:
    world = await make_engines(1)
    await world.publisher.publish(world.learner, 0)
    await world.engines[0].stop()
    push = asyncio.create_task(world.publisher.publish(world.learner, 1))
    assert not (await asyncio.wait({push}, timeout=0.2))[0]
    await world.restart(0)
    await push
    assert await world.versions() == [1]


async def test_a_run_ends_when_no_engine_is_left_for_too_long(make_engines: MakeEngines) -> None:
    world = await make_engines(patience_s=0.3)
    await world.publisher.publish(world.learner, 0)

    async def lose_all() -> None:
        async with world.publisher.watching():
            for engine in world.engines:
                await engine.stop()
            await asyncio.sleep(20)

    with pytest.raises(EngineError, match="did not answer /weight_info"):
        await lose_all()
    with pytest.raises(EngineError, match="did not answer"):
        await world.publisher.publish(world.learner, 1)


async def test_only_the_engine_with_open_calls_is_waited_for(make_engines: MakeEngines) -> None:
    world = await make_engines(hold_s=0.1)
    await world.publisher.publish(world.learner, 0)
    await world.sessions.create("s", "secret", b"")
    call = await world.sessions.begin("secret", "p")
    assert isinstance(call, Begun)
    await world.publisher.publish(world.learner, 1)
    other = next(e for e in world.engines if e.url != call.replica)
    assert await world.open() == [other.url]
    await world.sessions.end("s", call.seq, "delivered")
    async with world.publisher.watching():
        await eventually(lambda: _all_open(world, 2))
    assert await world.versions() == [1, 1]


async def test_held_calls_are_not_waited_for_and_end_under_the_new_version(make_engines: MakeEngines) -> None:
    world = await make_engines(1, push={"calls": "hold"}, pace={"max_staleness": 1})
    await world.publisher.publish(world.learner, 0)
    await world.sessions.create("s", "secret", b"")
    call = await world.sessions.begin("secret", "p")
    await world.publisher.publish(world.learner, 1)
    assert isinstance(call, Begun)
    assert (call.version, await world.sessions.replicas.version(call.replica)) == (0, 1)
    assert await world.sessions.replicas.in_flight() == 1


async def test_calls_are_held_only_where_replies_of_two_versions_are_trained(make_engines: MakeEngines) -> None:
    with pytest.raises(ConfigError, match="max_staleness = 0"):
        await make_engines(1, push={"calls": "hold"})


async def test_a_store_that_was_wiped_learns_what_each_engine_serves(make_engines: MakeEngines) -> None:
    world = await make_engines()
    await world.publisher.publish(world.learner, 3)
    await world.sessions._redis.flushall()
    async with world.publisher.watching():
        await eventually(lambda: _all_open(world, 2))
    assert await world.versions() == [3, 3]


async def test_the_count_of_sampled_tokens_goes_on_when_an_engine_is_restarted(make_engines: MakeEngines) -> None:
    world = await make_engines()
    for engine, tokens in zip(world.engines, (10, 20), strict=True):
        engine.generated = tokens
    assert await world.fleet.generated_tokens() == 30
    await world.engines[1].stop()
    assert await world.fleet.generated_tokens() == 30
    await world.restart(1)
    world.engines[1].generated = 3
    assert (await world.fleet.generated_tokens(), world.fleet.restarts) == (33, 1)


async def test_an_engine_that_is_slow_to_answer_is_not_taken_for_dead(
    make_engines: MakeEngines, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await make_engines()
    await world.publisher.publish(world.learner, 0)
    monkeypatch.setattr("services.trainer.weights.client._LOOK_S", 0.3)
    world.engines[1].weights.slow_s = 0.8
    await world.publisher.check_served(0)
    assert len(await world.open()) == 2
    monkeypatch.setattr("services.trainer.weights.publish.SILENT_S", 0.0)
    await world.publisher.check_served(0)
    assert await world.open() == [world.engines[0].url]
    world.engines[1].weights.slow_s = 0.0
    await world.publisher.check_served(0)
    assert len(await world.open()) == 2
