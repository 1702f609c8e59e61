"""Parts of a pool that several runs share."""

from __future__ import annotations

import asyncio

import pytest

from shared.keys import ORCHESTRATOR
from shared.store.connect import Client
from shared.store.shares import Part, Shares
from tests.contract.store_kit import Door, new_run


def part(room: int = 1) -> Part:
    return Part(weight=2.0, size=8, held=1, want=5, room=room, turn=3)


@pytest.fixture
def pool(door: Door) -> Shares:
    return Shares(door.open(ORCHESTRATOR), new_run(), lease_s=30, settle_s=0)


async def test_what_a_run_put_is_what_others_see(pool: Shares) -> None:
    first = await pool.look()
    assert first.parts == {}
    assert await pool.put(first.version, "run-a", part())
    assert (await pool.look()).parts == {"run-a": part()}
    await pool.leave("run-a")
    assert (await pool.look()).parts == {}


async def test_who_looked_before_somebody_else_wrote_has_to_look_again(pool: Shares) -> None:
    seen = await pool.look()
    assert await pool.put(seen.version, "run-a", part())
    assert not await pool.put(seen.version, "run-b", part())
    assert (await pool.look()).parts == {"run-a": part()}
    assert await pool.put((await pool.look()).version, "run-b", part())


async def test_many_at_once_never_hold_more_than_there_is(pool: Shares) -> None:
    async def take(run: str) -> None:
        while True:
            seen = await pool.look()
            if sum(p.room for p in seen.parts.values()) >= 3:
                return
            if await pool.put(seen.version, run, part()):
                return

    await asyncio.gather(*(take(f"run-{n}") for n in range(12)))
    assert len((await pool.look()).parts) == 3


async def test_a_run_that_is_not_heard_of_any_more_has_left(client: Client) -> None:
    name = new_run()
    pool, brief = Shares(client, name, lease_s=30, settle_s=0), Shares(client, name, lease_s=0.3, settle_s=0)
    assert await pool.put((await pool.look()).version, "run-a", part())
    assert await brief.put((await brief.look()).version, "run-b", part())
    before = await pool.look()
    assert set(before.parts) == {"run-a", "run-b"}
    await asyncio.sleep(0.4)
    after = await pool.look()
    assert set(after.parts) == {"run-a"}
    assert not await pool.put(before.version, "run-a", part(7)), "it was decided while the other still held a place"


async def test_a_pool_is_young_after_its_server_lost_it(client: Client) -> None:
    pool = Shares(client, name := new_run(), lease_s=30, settle_s=0.3)
    assert (await pool.look()).young
    await asyncio.sleep(0.4)
    seen = await pool.look()
    assert not seen.young
    assert await pool.put(seen.version, "run-a", part())
    assert not (await pool.look()).young
    [key] = [k async for k in client.scan_iter(f"*{name}*")]
    await client.delete(key)
    assert not await pool.put(seen.version, "run-a", part())
    assert (await pool.look()).young
