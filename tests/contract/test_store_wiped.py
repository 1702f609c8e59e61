"""A store that lost everything: nothing is written before the run's state is back, and nobody takes emptiness for truth."""

from __future__ import annotations

import asyncio

import pytest

from shared.errors import StoreWiped
from shared.store.assembly import Assembly
from shared.store.blobs import Blobs
from shared.store.connect import Client
from shared.store.sessions import Sessions
from tests.contract.store_kit import ENGINE, begun, new_assembly, new_run, new_sessions
from tests.waiting import eventually


async def wipe(client: Client) -> None:
    """Takes what all runs have: the servers are shared, but for the tests that run one after the other."""
    await client.flushall()


async def test_nothing_is_written_to_a_store_that_lost_the_runs_state(client: Client, assembly: Assembly) -> None:
    await assembly.open_group("g", b"info", 1.0)
    seen = await assembly.group("g")
    await assembly.epoch.check()
    await wipe(client)
    writing = (
        assembly.put_call("r-a1", 1, b"call"),
        assembly.put_part("r-a1", "sealed", b"seal"),
        assembly.open_group("g", b"info", 1.0),
        assembly.settle("g", "r-a1", "r", 1, b"settled"),
        assembly.close_group("g", b"message", seen),
        assembly.end_rollout("g", "r", 1),
        assembly.note_closed(["g"]),
        assembly.epoch.check(),
    )
    for step in writing:
        with pytest.raises(StoreWiped):
            await step
    assert [key async for key in client.scan_iter()] == []


async def test_one_rebuilds_while_the_others_wait(client: Client, assembly: Assembly) -> None:
    await wipe(client)
    assert await assembly.epoch.claim("one") == await assembly.epoch.claim("two") == "one"
    rebuilt = assembly.rebuilt_by("one")
    await rebuilt.note_closed(["g1"])
    await rebuilt.put_call("r-a1", 1, b"call")
    for stranger in (assembly, assembly.rebuilt_by("two")):
        with pytest.raises(StoreWiped):
            await stranger.put_call("r-a1", 2, b"call")
    await assembly.epoch.renew("one")
    with pytest.raises(StoreWiped):
        await assembly.epoch.finish("two")
    await assembly.epoch.finish("one")
    await assembly.epoch.check()
    assert await assembly.epoch.claim("two") == "ready"
    assert (await assembly.put_call("r-a1", 1, b"call")).kind == "same"
    assert await assembly.is_closed("g1")
    with pytest.raises(StoreWiped):
        await rebuilt.put_call("r-a1", 2, b"call")


async def test_a_wipe_while_rebuilding_is_noticed(client: Client, assembly: Assembly) -> None:
    await wipe(client)
    await assembly.epoch.claim("one")
    await wipe(client)
    with pytest.raises(StoreWiped):
        await assembly.rebuilt_by("one").put_call("r-a1", 1, b"call")
    with pytest.raises(StoreWiped):
        await assembly.epoch.finish("one")


async def test_sessions_that_were_wiped_are_unknown_and_calls_wait_for_the_gate(client: Client, sessions: Sessions) -> None:
    await sessions.create("r1-a1", "s3cret", b"")
    await begun(sessions)
    await wipe(client)
    assert await sessions.begin("s3cret", "proxy-1") == "unknown"
    assert await sessions.seal("r1-a1", 0) is None
    with pytest.raises(StoreWiped):
        await sessions.replicas.version(ENGINE)
    await sessions.create("r2-a1", "another", b"")
    assert await sessions.begin("another", "proxy-1") == "hold"
    assert await sessions.replicas.unknown([ENGINE]) == [ENGINE]
    await sessions.replicas.restore({ENGINE: 5})
    assert (await begun(sessions, "another")).version == 5
    assert await sessions.replicas.unknown([ENGINE]) == []


async def test_a_restored_gate_does_not_open_one_that_is_closed(sessions: Sessions) -> None:
    await sessions.create("r1-a1", "s3cret", b"")
    await sessions.replicas.open(ENGINE, 3)
    await sessions.replicas.close(ENGINE, 3)
    await sessions.replicas.restore({ENGINE: 2})
    assert await sessions.begin("s3cret", "proxy-1") == "hold"
    assert await sessions.replicas.version(ENGINE) == 3


async def test_a_session_that_is_lost_while_it_is_sealed_is_not_one_without_calls(client: Client, sessions: Sessions) -> None:
    await sessions.create("r1-a1", "s3cret", b"")
    await sessions.heartbeat("proxy-1")
    await begun(sessions)
    sealing = asyncio.create_task(sessions.seal("r1-a1", 5))

    async def is_sealed() -> bool:
        return await sessions.begin("s3cret", "proxy-1") == "sealed"

    await eventually(is_sealed)
    await wipe(client)
    with pytest.raises(StoreWiped, match="r1-a1"):
        await sealing


async def test_everything_expires(client: Client) -> None:
    await wipe(client)
    sessions, assembly = await new_sessions(client), await new_assembly(client)
    await sessions.create("r1-a1", "s3cret", b"")
    await sessions.heartbeat("proxy-1")
    await begun(sessions)
    await sessions.heartbeat("proxy-1")
    await assembly.open_group("g", b"info", 1.0)
    await assembly.put_call("r1-a1", 1, b"call")
    await assembly.put_part("r1-a1", "outcome", b"outcome")
    await assembly.settle("g", "r1-a1", "r1", 1, b"settled")
    await assembly.close_group("g", b"message", await assembly.group("g"))
    await assembly.open_group("g2", b"info", 1.0)
    await assembly.put_call("r2-a1", 1, b"call")
    await assembly.put_part("r2-a1", "sealed", b"sealed")
    await Blobs(client, new_run()).put(b"body")
    keys = [key async for key in client.scan_iter()]
    assert len(keys) >= 14
    assert [key for key in keys if await client.ttl(key) < 0] == []
