"""Work that is left for runners in containers."""

from __future__ import annotations

import hashlib
from typing import Any

from services.proxy import boxes
from tests.unit.proxy.world import World

PACKAGE = b"a packed folder"
SHA = hashlib.sha256(PACKAGE).hexdigest()


async def put(world: World, path: str, body: bytes | None = None, json: Any = None, key: bool = True) -> tuple[int, Any]:
    headers = world.control if key else {}
    async with world.http.put(f"{world.proxy.control_url}/control/{path}", data=body, json=json, headers=headers) as response:
        return response.status, await response.json()


async def get(world: World, path: str) -> tuple[int, bytes]:
    async with world.http.get(f"{world.proxy.url}/box/{path}") as response:
        return response.status, await response.read()


async def left(world: World, session: str = "r1-a1") -> str:
    """Leaves a box with one package; gives its ticket."""
    await put(world, f"packages/{SHA}", PACKAGE)
    status, answer = await put(world, f"boxes/{session}", json={"spec": {"phases": []}, "packages": {"tests": SHA}})
    assert (status, answer["missing"]) == (200, [])
    return str(answer["ticket"])


async def test_a_ticket_opens_the_spec_and_the_packages_of_its_own_box(world: World) -> None:
    ticket, other = await left(world), await left(world, "r2-a1")
    assert ticket != other
    assert await get(world, f"{ticket}/spec") == (200, b'{"phases": []}')
    assert await get(world, f"{ticket}/tests") == (200, PACKAGE)
    assert (await get(world, f"{ticket}/solution"))[0] == 404
    assert (await get(world, "x" * 43 + "/tests"))[0] == 404


async def test_a_box_put_again_has_the_same_ticket(world: World) -> None:
    assert await left(world) == await left(world)


async def test_a_runner_leaves_what_its_box_awaits_and_nothing_else(world: World) -> None:
    _, answer = await put(world, "boxes/r1-a1", json={"spec": {}, "leaves": ["left-0"]})
    for path, status in ((f"{answer['ticket']}/left-0", 200), (f"{answer['ticket']}/left-1", 404), ("x" * 43 + "/left-0", 404)):
        async with world.http.put(f"{world.proxy.url}/box/{path}", data=PACKAGE) as response:
            assert response.status == status, path
    for path, found in (("r1-a1/left-0", (200, PACKAGE)), ("r1-a1/left-1", (404,)), ("r2-a1/left-0", (404,))):
        async with world.http.get(f"{world.proxy.control_url}/control/boxes/{path}", headers=world.control) as response:
            assert (response.status, await response.read())[: len(found)] == found, path
    assert (await get(world, f"{answer['ticket']}/left-0"))[0] == 404, "it is no package"


async def test_a_sessions_secret_is_no_ticket(world: World) -> None:
    secret = (await world.open()).rpartition("/")[2]
    await left(world)
    assert (await get(world, f"{secret}/tests"))[0] == 404
    assert (await get(world, f"{secret}/spec"))[0] == 404


async def test_packages_that_are_missing_are_named_and_nothing_is_left(world: World) -> None:
    status, answer = await put(world, "boxes/r1-a1", json={"spec": {}, "packages": {"tests": SHA, "more": "0" * 64}})
    assert (status, answer) == (200, {"ticket": "", "missing": sorted([SHA, "0" * 64])})


async def test_nothing_can_be_left_without_the_control_key(world: World) -> None:
    assert (await put(world, f"packages/{SHA}", PACKAGE, key=False))[0] == 401
    assert (await put(world, "boxes/r1-a1", json={"spec": {}}, key=False))[0] == 401


async def test_a_package_that_is_not_what_its_hash_says_is_refused(world: World) -> None:
    assert (await put(world, f"packages/{SHA}", b"something else"))[0] == 400


async def test_what_is_no_box_is_refused(world: World) -> None:
    for body in (b"", b"[]", b'{"packages": {}}', b'{"spec": {}, "more": 1}', b'{"spec": {}, "packages": {"a": 1}}'):
        status, answer = await put(world, "boxes/r1-a1", body)
        assert (status, "not a box" in answer["detail"]) == (400, True)


async def test_a_package_that_is_too_large_is_refused_before_it_is_whole(world: World, monkeypatch: Any) -> None:
    monkeypatch.setattr(boxes, "MAX_PACKAGE", 10)
    status, answer = await put(world, f"packages/{SHA}", PACKAGE)
    assert (status, "put what is so large into the task's image" in answer["detail"]) == (413, True)


async def test_only_reading_is_offered_to_runners(world: World) -> None:
    ticket = await left(world)
    async with world.http.post(f"{world.proxy.url}/box/{ticket}/spec", data=b"{}") as response:
        assert response.status == 405


async def test_tickets_are_not_found_in_the_store(world: World) -> None:
    ticket = await left(world)
    assert not [key for key in await world.store.keys("*") if ticket.encode() in key]


async def test_all_that_is_left_expires(world: World) -> None:
    await left(world)
    ages = [await world.store.ttl(key) for key in await world.store.keys("*") if b":box:" in key or b":package:" in key]
    assert len(ages) == 2
    assert all(age > 0 for age in ages)
