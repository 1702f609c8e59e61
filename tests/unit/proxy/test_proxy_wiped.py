"""A store that is wiped under a proxy: its sessions are gone and say so, the gate comes back with the version served."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from shared.events import WeightsLoaded, WeightsPublished
from tests.unit.proxy.world import MakeWorld, World, eventually


@pytest.fixture(autouse=True)
def quick_heart() -> Iterator[None]:
    """A proxy looks after the gate often."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("services.proxy.service.HEARTBEAT_S", 0.02)
        yield


async def tell_weights(world: World, *, loaded: list[int], published: list[int]) -> None:
    for version in published:
        await world.bus.publish(WeightsPublished(run_id="run1", version=version))
    for version in loaded:
        world.engine.weights.version = str(version)
        await world.bus.publish(WeightsLoaded(run_id="run1", version=version))


async def test_calls_of_a_session_that_is_gone_are_refused_and_others_go_on_under_the_right_version(world: World) -> None:
    await tell_weights(world, loaded=[0, 1, 10], published=[0, 1, 10])
    base = await world.open("r1-a1")
    await world.wipe()
    status, answer = await world.chat(base)
    assert status == 401
    assert "lost" in answer["error"]["message"]
    async with world.http.post(f"{world.proxy.control_url}/control/sessions/r1-a1/seal", headers=world.control) as response:
        assert response.status == 404
    assert (await world.chat(await world.open("r2-a1")))[0] == 200
    assert [(r.session_id, r.weight_version_start) for r in world.records] == [("r2-a1", 10)]


async def test_while_weights_are_loaded_the_gate_stays_closed_until_they_are(make_world: MakeWorld) -> None:
    world = await make_world(hold_s=5.0)
    await tell_weights(world, loaded=[0], published=[0, 1])
    await world.wipe()
    call = asyncio.create_task(world.chat(await world.open("r2-a1")))
    assert not (await asyncio.wait({call}, timeout=0.2))[0]
    assert not world.engine.requests
    await tell_weights(world, loaded=[1], published=[])
    assert (await call)[0] == 200
    assert [r.weight_version_start for r in world.records] == [1]


async def test_an_engine_that_was_started_anew_takes_no_calls_until_it_serves_what_was_told(make_world: MakeWorld) -> None:
    world = await make_world(hold_s=5.0)
    await tell_weights(world, loaded=[0, 1], published=[0, 1])
    world.engine.weights.version = "default"
    await world.wipe()
    call = asyncio.create_task(world.chat(await world.open("r2-a1")))
    assert not (await asyncio.wait({call}, timeout=0.2))[0]
    assert not world.engine.requests
    world.engine.weights.version = "1"
    assert (await call)[0] == 200
    assert [r.weight_version_start for r in world.records] == [1]


async def test_a_call_under_way_when_the_store_is_wiped_ends_and_is_recorded(world: World) -> None:
    base = await world.open("r1-a1")
    world.bus.free.clear()
    call = asyncio.create_task(world.chat(base))
    await world.bus.waiting.wait()
    await world.wipe()
    world.bus.free.set()
    assert (await call)[0] == 200
    assert [r.seq for r in world.records] == [1]
    await eventually(lambda: not world.proxy.serving)


async def test_a_proxy_is_not_ready_before_it_knows_the_version(make_world: MakeWorld) -> None:
    world = await make_world()
    await tell_weights(world, loaded=[], published=[0])
    await world.wipe()
    async with world.http.get(f"{world.proxy.control_url}/readyz") as response:
        assert (response.status, list((await response.json())["missing"])) == (503, ["store"])
