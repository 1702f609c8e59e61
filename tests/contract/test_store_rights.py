"""What each user may do at a real store. The suites of sessions, assembly, replicas and shares run with their users' rights."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable

import pytest

from shared.errors import StoreRefused
from shared.events import BlobRef
from shared.keys import COLLECTOR, OPERATOR, ORCHESTRATOR, PROXY, TRAINER
from shared.store.assembly import Assembly
from shared.store.blobs import Blobs
from shared.store.boxes import Boxes
from shared.store.connect import Client
from shared.store.sessions import Sessions
from shared.store.shares import Shares
from tests.contract.store_kit import ENGINE, Door, new_run, new_sessions

real = pytest.mark.parametrize("address", ["embedded", "container"], indirect=True)
REF = BlobRef(key="0" * 64, size=1, sha256="0" * 64)

Attempt = Callable[[Client, str], Awaitable[object]]

NOT_ITS_OWN: list[tuple[str, Attempt]] = [
    (PROXY, lambda client, run: Assembly(client, run).put_part("r1-a1", "outcome", b"1")),
    (PROXY, lambda client, run: Assembly(client, run).load("r1-a1")),
    (PROXY, lambda client, run: Assembly(client, run).outbox()),
    (PROXY, lambda client, run: Shares(client, run, 30.0).look()),
    (COLLECTOR, lambda client, run: Sessions(client, run).create("r1-a1", "secret", b"{}")),
    (COLLECTOR, lambda client, run: Sessions(client, run).status("secret")),
    (COLLECTOR, lambda client, run: Sessions(client, run).replicas.open(ENGINE, 1)),
    (COLLECTOR, lambda client, run: Boxes(client, run).spec("ticket")),
    (TRAINER, lambda client, run: Sessions(client, run).create("r1-a1", "secret", b"{}")),
    (TRAINER, lambda client, run: Sessions(client, run).meta("r1-a1")),
    (TRAINER, lambda client, run: Blobs(client, run).put(b"body")),
    (TRAINER, lambda client, run: Assembly(client, run).group("g")),
    (ORCHESTRATOR, lambda client, run: Blobs(client, run).has(REF)),
    (ORCHESTRATOR, lambda client, run: Sessions(client, run).replicas.look()),
]


@real
@pytest.mark.parametrize("number", range(len(NOT_ITS_OWN)))
async def test_what_is_not_its_own_is_refused_to_a_user_at_once(door: Door, number: int) -> None:
    user, attempt = NOT_ITS_OWN[number]
    began = time.monotonic()
    with pytest.raises(StoreRefused, match=rf"the store refused to .*user {user}: "):
        await attempt(door.open(user), new_run())
    assert time.monotonic() - began < 2.5


@real
@pytest.mark.parametrize("command", ["FLUSHALL", "KEYS *", "CONFIG GET *", "SCRIPT FLUSH", "ACL LIST", "SCAN 0", "MONITOR"])
async def test_nobody_does_anything_to_the_whole_store(door: Door, command: str) -> None:
    for user in (PROXY, ORCHESTRATOR, COLLECTOR, TRAINER):
        with pytest.raises(Exception, match="no permissions to run"):
            await door.open(user).line.run(*command.split())  # type: ignore[attr-defined]


@real
async def test_a_trainer_does_its_part_with_its_own_rights(door: Door) -> None:
    sessions = await new_sessions(door.open(PROXY))
    run = sessions.replicas._table.split("{")[1].split("}")[0]
    ref = await Blobs(door.open(COLLECTOR), run).put(b"rows")
    await sessions.heartbeat("proxy-1")
    await sessions.create("r1-a1", "secret", b"{}")
    await sessions.begin("secret", "proxy-1")
    own, blobs = Sessions(door.open(TRAINER), run).replicas, Blobs(door.open(TRAINER), run)
    assert await blobs.get(ref) == b"rows"
    assert await own.in_flight(ENGINE) == 1
    await own.close(ENGINE, 1)
    await own.open(ENGINE, 2)
    assert await own.version(ENGINE) == await own.newest() == 2
    assert await own.unknown([ENGINE, "http://other:1"]) == ["http://other:1"]


async def test_what_a_proxy_keeps_for_runners_comes_back_and_tells_the_store_nothing(door: Door) -> None:
    client, spec = door.open(PROXY), json.dumps({"env": {"OPENAI_API_KEY": "the-secret"}}).encode()
    run = new_run()
    boxes = Boxes(client, run)
    assert await boxes.put("ticket", spec, {"tests": "abc"}) == ["abc"]
    await boxes.put_package("abc", b"packed")
    assert await boxes.put("ticket", spec, {"tests": "abc"}) == []
    assert await boxes.spec("ticket") == spec
    assert await boxes.package("ticket", "tests") == b"packed"
    assert await boxes.spec("other") is None
    said = await dump(door, run)
    assert b"the-secret" not in said
    assert b"ticket" not in said


async def test_the_secret_of_a_session_is_not_in_the_store(door: Door) -> None:
    sessions = await new_sessions(door.open(PROXY))
    await sessions.create("r1-a1", "the-secret-of-a-session", b"{}")
    await sessions.begin("the-secret-of-a-session", "proxy-1")
    run = sessions.replicas._table.split("{")[1].split("}")[0]
    assert b"the-secret-of-a-session" not in await dump(door, run)


async def dump(door: Door, run: str) -> bytes:
    """Everything that the store has of a run, names of keys included."""
    client, said = door.open(OPERATOR), []
    async for key in client.scan_iter(match=f"*{run}*"):
        held = client.hgetall(key) if await client.type(key) == b"hash" else client.get(key)
        said.append(repr((key, await held)).encode())
    assert said
    return b"\n".join(said)
