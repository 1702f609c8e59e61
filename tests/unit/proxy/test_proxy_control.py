"""Control routes and health."""

from __future__ import annotations

from typing import Any

import pytest

from services.proxy.service import ProxyService
from shared.errors import ConfigError
from shared.events import SessionSealed
from tests.unit.proxy.world import KEY, MakeWorld, World

META = {"rollout_id": "r1", "attempt": 1, "group_id": "g1", "purpose": "train"}


@pytest.mark.parametrize(
    "header", ["", "Bearer wrong", "Bearer ", KEY, f"bearer {KEY}x", "Bearer ключ".encode().decode("latin-1")]
)
async def test_control_routes_want_the_control_key(world: World, header: str) -> None:
    for method, path in (("PUT", "/control/sessions/r1-a1"), ("POST", "/control/sessions/r1-a1/seal")):
        url, headers = world.proxy.control_url + path, {"authorization": header}
        async with world.http.request(method, url, json=META, headers=headers) as response:
            assert response.status == 401
            assert KEY not in await response.text()


async def test_opening_a_session_twice_gives_the_same_secret(world: World) -> None:
    first, again, other = await world.open("r1-a1"), await world.open("r1-a1"), await world.open("r1-a2")
    assert first == again != other


@pytest.mark.parametrize(
    ("session_id", "meta"),
    [
        ("r_1", META),
        ("r1-a1", {}),
        ("r1-a1", META | {"sampling": {"temperature": "hot"}}),
        ("r1-a1", META | {"group_id": "g.1"}),
    ],
)
async def test_a_session_that_is_not_acceptable_is_refused_with_the_reason(world: World, session_id: str, meta: Any) -> None:
    url = f"{world.proxy.control_url}/control/sessions/{session_id}"
    async with world.http.put(url, json=meta, headers=world.control) as response:
        assert response.status == 400
        assert (await response.json())["detail"]


async def test_sealing_counts_calls_and_publishes_once(world: World) -> None:
    base = await world.open()
    for _ in range(3):
        assert (await world.chat(base))[0] == 200
    counts = {"calls": 3, "errored": [], "cut": [], "lost": []}
    assert await world.seal() == counts
    assert await world.seal() == counts
    [sealed] = world.seals
    assert isinstance(sealed, SessionSealed)
    assert (sealed.rollout_id, sealed.attempt, sealed.group_id, sealed.purpose) == ("r1", 1, "g1", "train")
    assert (sealed.session_id, sealed.calls, sealed.lost) == ("r1-a1", 3, [])


async def test_a_sealed_session_takes_no_calls_and_is_not_opened_again(world: World) -> None:
    base = await world.open()
    await world.seal()
    status, answer = await world.chat(base)
    assert status == 403
    assert answer["error"]["message"]
    async with world.http.put(
        f"{world.proxy.control_url}/control/sessions/r1-a1", json=META, headers=world.control
    ) as response:
        assert response.status == 409
    assert not world.engine.requests


async def test_sealing_an_unknown_session_is_404(world: World) -> None:
    async with world.http.post(f"{world.proxy.control_url}/control/sessions/nobody-a1/seal", headers=world.control) as response:
        assert response.status == 404


async def test_sealing_fails_and_can_be_repeated_while_the_bus_is_down(world: World) -> None:
    await world.open()
    url = f"{world.proxy.control_url}/control/sessions/r1-a1/seal"
    world.bus.down = True
    async with world.http.post(url, headers=world.control) as response:
        assert response.status == 503
        assert response.headers["retry-after"]
    world.bus.down = False
    assert (await world.seal())["calls"] == 0
    assert len(world.seals) == 1


async def test_a_session_opened_at_one_proxy_can_be_used_and_sealed_at_another(world: World) -> None:
    base = await world.open()
    assert (await world.chat(base))[0] == 200
    other = world.another_proxy()
    await other.start()
    try:
        assert (await world.chat(base.replace(world.proxy.url, other.url)))[0] == 200
        async with world.http.post(f"{other.control_url}/control/sessions/r1-a1/seal", headers=world.control) as response:
            assert (await response.json())["calls"] == 2
    finally:
        await other.stop()
    first, second = world.records
    assert (first.parent_status, second.parent_status) == ("root", "root")
    assert (second.parent_len, len(second.prompt_delta)) == (0, 4 * second.prompt_len)


async def test_health_says_what_is_missing(world: World) -> None:
    for path in ("/healthz", "/readyz"):
        async with world.http.get(world.proxy.control_url + path) as response:
            assert response.status == 200
    await world.engine.stop()
    async with world.http.get(world.proxy.control_url + "/readyz") as response:
        assert response.status == 503
        assert list((await response.json())["missing"]) == ["engine"]


async def test_an_address_in_use_is_a_clear_error(world: World, make_world: MakeWorld) -> None:
    with pytest.raises(ConfigError, match=r"cannot listen on 127.0.0.1:\d+"):
        await make_world(port=int(world.proxy.url.rpartition(":")[2]))


def test_an_empty_control_key_is_refused(world: World) -> None:
    with pytest.raises(ConfigError, match="OPENFORGE_CONTROL_KEY"):
        ProxyService(world.config, world.bus, world.sessions, world.blobs, world.boxes, control_key="")
