"""Sessions for harnesses that somebody else launches, up to the group that the collector makes of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import fakeredis
import pytest

from services.collector.service import CollectorService
from shared.bus.memory import MemoryBus
from shared.events import (
    GroupCompleted,
    GroupDiscarded,
    Message,
    RolloutFailed,
    RolloutFinished,
    RolloutScheduled,
    RolloutStarted,
)
from shared.store.assembly import Assembly
from shared.store.blobs import Blobs
from tests.unit.proxy.world import Json, World, eventually

WANTED = {"task": "t", "harness": "h"}


async def post(world: World, path: str, **body: Any) -> tuple[int, Json]:
    """A control request: status and answer."""
    url = f"{world.proxy.control_url}/control/sessions{path}"
    async with world.http.post(url, json=body, headers=world.control) as response:
        return response.status, await response.json()


async def create(world: World, **wanted: Any) -> Json:
    status, made = await post(world, "", **WANTED | wanted)
    assert status == 200, made
    return made


def told(world: World, kind: type[Message]) -> list[Any]:
    return [m for m in world.bus.messages() if isinstance(m, kind)]


@asynccontextmanager
async def collector(world: World) -> AsyncIterator[None]:
    """A collector at work on the world's bus."""
    bus, store = MemoryBus(world.bus.broker), fakeredis.FakeAsyncRedis()
    service = CollectorService(world.config, bus, Assembly(store, "run1"), Blobs(store, "run1"))
    await service.start()
    yield
    await bus.close()
    await service.stop()


async def test_a_rollout_that_is_alone_is_scored(world: World) -> None:
    async with collector(world):
        made = await create(world)
        assert (await world.chat(made["base_url"]))[0] == 200
        assert await post(world, f"/{made['session_id']}/reward", reward=0.5) == (200, {"reward": 0.5})
        status, closed = await post(world, f"/{made['session_id']}/end")
        assert (status, closed["reward"], closed["calls"]) == (200, 0.5, 1)
        await eventually(lambda: bool(told(world, GroupCompleted)))
    [group] = told(world, GroupCompleted)
    [trajectory] = group.trajectories
    assert (group.group_id, group.purpose, group.task) == (made["group_id"], "eval", "t")
    assert (trajectory.rollout_id, trajectory.harness, trajectory.reward, trajectory.calls) == (made["rollout_id"], "h", 0.5, 1)


async def test_a_group_of_rollouts_is_trained_on(world: World) -> None:
    async with collector(world):
        sessions = [await create(world, group_id="g", group_size=3) for _ in range(3)]
        for reward, made in enumerate(sessions):
            await world.chat(made["base_url"])
            await post(world, f"/{made['session_id']}/reward", reward=reward)
            assert not told(world, GroupCompleted)
            await post(world, f"/{made['session_id']}/end")
        await eventually(lambda: bool(told(world, GroupCompleted)))
    [group] = told(world, GroupCompleted)
    assert {t.rollout_id: t.reward for t in group.trajectories} == {s["rollout_id"]: r for r, s in enumerate(sessions)}
    assert all(len(t.rows) == 1 for t in group.trajectories)
    assert (group.purpose, group.tokens.trained) == ("train", sum(len(r.completion) // 4 for r in world.records))


async def test_a_session_without_a_reward_has_failed(world: World) -> None:
    async with collector(world):
        made = [await create(world, group_id="g", group_size=2) for _ in range(2)]
        for one in made:
            status, closed = await post(world, f"/{one['session_id']}/end")
            assert (status, closed["reward"]) == (200, None)
        await eventually(lambda: bool(told(world, GroupDiscarded)))
    assert {(m.reason, m.final, m.sealed) for m in told(world, RolloutFailed)} == {("VerifierError", True, True)}
    [group] = told(world, GroupDiscarded)
    assert (group.reason, group.outcomes) == ("too_few", {"VerifierError": 2})


async def test_what_is_repeated_gives_the_same_and_is_told_once(world: World) -> None:
    first, again = await create(world, rollout_id="r1"), await create(world, rollout_id="r1")
    assert first == again
    for reward in (1.0, -2.0):
        assert (await post(world, "/r1-a1/reward", reward=reward))[0] == 200
    assert await post(world, "/r1-a1/end") == await post(world, "/r1-a1/end")
    [scheduled], [started], [finished] = (told(world, k) for k in (RolloutScheduled, RolloutStarted, RolloutFinished))
    assert (scheduled.group_size, scheduled.task, scheduled.harness) == (1, "t", "h")
    assert (started.sandbox, finished.reward, len(world.seals)) == ("own", -2.0, 1)


async def test_sessions_without_a_rollout_id_are_new_ones(world: World) -> None:
    one, other = await create(world), await create(world)
    for name in ("session_id", "rollout_id", "group_id", "secret"):
        assert one[name] != other[name]


async def test_every_variable_leads_to_the_session(world: World) -> None:
    env = (await create(world))["env"]
    said = {"messages": [{"role": "user", "content": "hi"}], "model": "m"}
    gemini = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
    for url, key, body in (
        (f"{env['OPENAI_BASE_URL']}/chat/completions", env["OPENAI_API_KEY"], said),
        (f"{env['ANTHROPIC_BASE_URL']}/v1/messages", env["ANTHROPIC_API_KEY"], said | {"max_tokens": 50}),
        (f"{env['GOOGLE_GEMINI_BASE_URL']}/v1beta/models/m:generateContent", env["GEMINI_API_KEY"], gemini),
        (f"{world.proxy.url}/v1/chat/completions", env["OPENAI_API_KEY"], said),
    ):
        async with world.http.post(url, json=body, headers={"authorization": f"Bearer {key}"}) as response:
            assert response.status == 200, await response.text()
    assert [r.seq for r in world.records] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("wanted", "hint"),
    [
        ({"task": ""}, "task"),
        ({"group_size": 0}, "group_size"),
        ({"purpose": "train"}, "no baseline"),
        ({"rollout_id": "r_1"}, "rollout_id"),
        ({"group_id": "g.1"}, "group_id"),
        ({"sampling": {"temperature": "hot"}}, "temperature"),
        ({"roles": [{"role": "aux"}]}, "without a condition"),
        ({"reward": 1.0}, "reward"),
    ],
)
async def test_a_session_that_cannot_be_is_refused_with_the_reason(world: World, wanted: Json, hint: str) -> None:
    status, answer = await post(world, "", **WANTED | wanted)
    assert status == 400
    assert hint in answer["detail"]
    assert not world.bus.messages()


@pytest.mark.parametrize(
    "body", [b"", b"{}", b'{"reward": "1"}', b'{"reward": NaN}', b'{"reward": 1e999}', b'{"reward": true}']
)
async def test_a_reward_that_is_no_finite_number_is_refused(world: World, body: bytes) -> None:
    await create(world, rollout_id="r1")
    url = f"{world.proxy.control_url}/control/sessions/r1-a1/reward"
    async with world.http.post(url, data=body, headers=world.control) as response:
        assert response.status == 400
        assert '{"reward": 1.0}' in (await response.json())["detail"]


async def test_requests_that_come_at_the_wrong_time_say_so(world: World) -> None:
    for path in ("/r1-a1/reward", "/r1-a1/end"):
        status, answer = await post(world, path, reward=1.0)
        assert (status, "there is no session r1-a1" in answer["detail"]) == (404, True)
    await create(world, rollout_id="r1")
    assert (await post(world, "", **WANTED, rollout_id="r1", group_id="other"))[0] == 409
    await post(world, "/r1-a1/end")
    for path, body in (("/r1-a1/reward", {"reward": 1.0}), ("", WANTED | {"rollout_id": "r1"})):
        status, answer = await post(world, path, **body)
        assert status == 409, answer
    await world.open("r2-a1")
    for path in ("/r2-a1/reward", "/r2-a1/end"):
        status, answer = await post(world, path, reward=1.0)
        assert (status, "orchestrator" in answer["detail"]) == (409, True)


async def test_a_reward_may_come_after_the_session_was_sealed(world: World) -> None:
    made = await create(world)
    await world.seal(made["session_id"])
    assert (await post(world, f"/{made['session_id']}/reward", reward=1.0))[0] == 200
    assert (await post(world, f"/{made['session_id']}/end"))[1]["reward"] == 1.0


async def test_an_end_that_failed_can_be_repeated(world: World) -> None:
    made = await create(world)
    await post(world, f"/{made['session_id']}/reward", reward=1.0)
    world.bus.down = True
    assert (await post(world, f"/{made['session_id']}/end"))[0] == 503
    world.bus.down = False
    assert (await post(world, f"/{made['session_id']}/end"))[0] == 200
    assert len(told(world, RolloutFinished)) == 1


async def test_the_control_key_is_wanted(world: World) -> None:
    for path in ("", "/r1-a1/reward", "/r1-a1/end"):
        async with world.http.post(f"{world.proxy.control_url}/control/sessions{path}", json=WANTED) as response:
            assert response.status == 401
