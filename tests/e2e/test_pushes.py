"""Pushes into real vLLMs under load: several of them, and one that is killed in each phase."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from services.trainer.weights.client import VllmEngine
from services.trainer.weights.fleet import Replica
from tests.e2e.served import EXACT, Served, served
from tests.waiting import eventually, until

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(1200), pytest.mark.filterwarnings("ignore")]

Kill = Callable[[Served, pytest.MonkeyPatch], Awaitable[None]]


async def test_no_call_fails_while_two_engines_get_new_weights_one_after_the_other(tmp_path: Path) -> None:
    async with served(tmp_path, 2) as two:

        def both_served(version: int) -> bool:
            records = two.records(version)
            return len(records) >= 20 and {r.engine for r in records} == set(two.plan.config.engine.addresses)

        await two.learn_and_push()
        async with two.publisher.watching(), two.load(6):
            await until(lambda: both_served(0), 240)
            await two.learn_and_push()
            await until(lambda: both_served(1), 240)
        assert set(two.statuses) == {200}
        assert len(two.statuses) == len(two.world.records) == len(two.records(0)) + len(two.records(1))
        for version in (0, 1):
            assert two.largest_gap(two.records(version), version) < EXACT
        assert two.largest_gap(two.records(1)[:5], 0) > EXACT  # so that the comparison says something
        assert [(m.version, m.replica) for m in two.loaded()] == [(0, 0), (0, 1), (1, 0), (1, 1)]


@pytest.fixture(scope="module")
async def one(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    async with served(tmp_path_factory.mktemp("one"), 1) as made:
        await made.learn_and_push()
        yield made


async def while_generating(one: Served, _: pytest.MonkeyPatch) -> None:
    before = len(one.world.records)
    await until(lambda: len(one.world.records) > before, 120)
    one.kill()


async def before_a_push(one: Served, _: pytest.MonkeyPatch) -> None:
    one.kill()
    await one.learn_and_push()


async def during(path: str, one: Served, patch: pytest.MonkeyPatch) -> None:
    """Kills the engine as soon as the publisher has sent it a request."""
    call, killed = VllmEngine._call, list[str]()

    async def kill_once(self: VllmEngine, method: str, asked: str, body: object = None, timeout_s: float = 120.0) -> bytes:
        if asked == path and not killed:
            killed.append(path)
            asyncio.get_running_loop().call_later(0.005, one.kill)
        return await call(self, method, asked, body, timeout_s)  # type: ignore[arg-type]

    patch.setattr(VllmEngine, "_call", kill_once)
    await one.learn_and_push()
    assert killed


async def during_an_update(one: Served, patch: pytest.MonkeyPatch) -> None:
    await during("/update_weights", one, patch)


async def during_the_probe(one: Served, patch: pytest.MonkeyPatch) -> None:
    await during("/v1/completions", one, patch)


async def after_a_push(one: Served, _: pytest.MonkeyPatch) -> None:
    await one.learn_and_push()
    one.kill()


@pytest.mark.long
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("kill", [while_generating, before_a_push, during_an_update, during_the_probe, after_a_push])
async def test_a_killed_engine_comes_back_with_the_newest_weights_and_calls_go_on(one: Served, kill: Kill) -> None:
    first, replica = len(one.world.records), one.fleet.replicas[0]
    pid = one.supervisor.pids()["engine"]
    with pytest.MonkeyPatch.context() as patch:
        async with one.publisher.watching(), one.load(3):
            await kill(one, patch)
            await eventually(lambda: back(one, replica, pid), 600)
            again = len(one.world.records)
            await until(lambda: len(one.world.records) >= again + 6, 300)
        newest = replica.serves
        await one.publisher.check_served(newest or 0)
    new = one.world.records[first:]
    assert new[-1].weight_version_end == newest
    for version in {r.weight_version_start for r in new}:
        stamped = [r for r in new if r.weight_version_start == version]
        assert one.largest_gap(stamped, version) < EXACT, (kill, version)
    await eventually(lambda: idle(one), 10)  # that a call ended is written down just after its reply


async def idle(one: Served) -> bool:
    """Whether no call is in flight."""
    return await one.world.sessions.replicas.in_flight() == 0


async def back(one: Served, replica: Replica, pid: int) -> bool:
    """Whether another process serves the newest weights."""
    newest = max(m.version for m in one.loaded())
    return one.supervisor.pids().get("engine") not in (None, pid) and replica.open and replica.serves == newest
