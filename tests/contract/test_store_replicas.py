"""The table of engines: which of them a call is given to, stated once for the twin and the real stores."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shared.keys import PROXY
from shared.store.connect import Client
from shared.store.replicas import ReplicaState
from shared.store.sessions import Begun, Sessions
from tests.contract.store_kit import Door, begun, new_run, new_sessions

FEW = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
ONE, TWO, THREE = "http://one:1", "http://two:1", "http://three:1"


@pytest.fixture
async def several(door: Door) -> Sessions:
    """Sessions of a run with two engines, and four sessions."""
    sessions = Sessions(door.open(PROXY), new_run())
    await sessions.replicas.restore({ONE: 3, TWO: 4})
    for n in range(4):
        await sessions.create(f"r{n}-a1", f"secret {n}", b"")
    await sessions.heartbeat("proxy-1")
    return sessions


async def call(sessions: Sessions, session: int) -> Begun:
    return await begun(sessions, f"secret {session}")


async def test_sessions_are_spread_and_each_stays_where_it_is(several: Sessions) -> None:
    first = [(await call(several, n)).replica for n in range(4)]
    assert sorted(first) == [ONE, ONE, TWO, TWO]
    assert [(await call(several, n)).replica for n in (3, 0, 2, 1)] == [first[n] for n in (3, 0, 2, 1)]


async def test_calls_that_come_at_once_are_spread_too(several: Sessions) -> None:
    calls = await asyncio.gather(*(call(several, n) for n in range(4)))
    assert sorted(c.replica for c in calls) == [ONE, ONE, TWO, TWO]


async def test_the_engine_with_the_fewest_calls_takes_a_new_session(several: Sessions) -> None:
    busy = [await call(several, 0) for _ in range(3)]
    other = {ONE: TWO, TWO: ONE}[busy[0].replica]
    assert [(await call(several, n)).replica for n in (1, 2, 3)] == [other] * 3
    assert (await several.replicas.look())[other].calls == 3
    for done in busy:
        await several.end(done.session_id, done.seq, "delivered")
    await several.create("r4-a1", "secret 4", b"")
    assert (await call(several, 4)).replica == busy[0].replica


async def test_sessions_that_crowd_at_an_engine_spread_again(several: Sessions) -> None:
    await several.replicas.close(TWO, 4)
    crowded = [await call(several, n % 4) for n in range(6)]
    await several.replicas.open(TWO, 4)
    for done in crowded[:2]:
        await several.end(done.session_id, done.seq, "delivered")
    assert [(await call(several, n)).replica for n in range(4)] == [TWO, ONE, TWO, ONE]


async def test_a_call_carries_the_version_of_the_engine_that_serves_it(several: Sessions) -> None:
    for n in range(4):
        given = await call(several, n)
        assert given.version == {ONE: 3, TWO: 4}[given.replica]
    assert (await several.replicas.version(ONE), await several.replicas.newest()) == (3, 4)


async def test_a_closed_engine_takes_no_calls_and_its_sessions_go_to_another(several: Sessions) -> None:
    calls = [await call(several, n) for n in range(4)]
    await several.replicas.close(ONE, 4)
    assert {(await call(several, n)).replica for n in range(4)} == {TWO}
    assert await several.replicas.in_flight(ONE) == sum(c.replica == ONE for c in calls)
    await several.replicas.close(TWO, 4)
    assert await several.begin("secret 0", "proxy-1") == "hold"
    await several.replicas.open(ONE, 5)
    assert ((await call(several, 0)).replica, (await call(several, 1)).version) == (ONE, 5)


async def test_a_call_whose_engine_cannot_be_reached_goes_to_another_with_its_version(several: Sessions) -> None:
    before = await call(several, 0)
    other = {ONE: TWO, TWO: ONE}[before.replica]
    moved = await several.move(before)
    assert isinstance(moved, Begun)
    assert (moved.session_id, moved.seq, moved.replica) == (before.session_id, before.seq, other)
    assert moved.version == {ONE: 3, TWO: 4}[other]
    table = await several.replicas.look()
    assert (table[before.replica].calls, table[other].calls) == (0, 1)
    assert (await call(several, 0)).replica == other  # the session stays there
    await several.end(moved.session_id, moved.seq, "delivered")
    assert await several.replicas.in_flight() == 1


async def test_a_call_that_is_alone_with_its_engine_stays_or_is_held(several: Sessions) -> None:
    given = await call(several, 0)
    other = {ONE: TWO, TWO: ONE}[given.replica]
    await several.replicas.close(other, 4)
    assert await several.move(given) == given
    await several.replicas.close(given.replica, 3)
    assert await several.move(given) == "hold"
    assert (await several.replicas.in_flight(given.replica), await several.replicas.in_flight()) == (0, 1)  # it waits at none
    await several.replicas.open(other, 4)
    again = await several.move(given)
    assert isinstance(again, Begun)
    assert (again.replica, await several.replicas.in_flight(other)) == (other, 1)
    await several.seal(given.session_id, 0)
    assert await several.move(given) == "sealed"


async def test_a_call_is_not_sent_to_and_fro_between_engines_that_are_gone(several: Sessions) -> None:
    await several.replicas.restore({THREE: 4})
    busy = [await call(several, n % 4) for n in range(6)]
    given, gone = busy[0], {ONE, TWO}
    assert given.replica in gone
    moved = await several.move(given, gone)
    assert isinstance(moved, Begun)
    assert moved.replica == THREE
    again = await several.move(moved, {ONE, TWO, THREE})
    assert isinstance(again, Begun)  # all were tried: any of them


async def test_engines_of_an_earlier_stack_are_forgotten(several: Sessions) -> None:
    await several.replicas.retain([TWO, THREE])
    assert await several.replicas.look() == {TWO: ReplicaState(open=True, version=4)}
    await several.replicas.retain([TWO])
    assert (await call(several, 0)).replica == TWO


async def test_calls_of_a_dead_proxy_are_not_in_flight(several: Sessions) -> None:
    assert isinstance(await several.begin("secret 0", "dead"), Begun)
    assert await several.replicas.in_flight() == 0
    assert all(state.calls == 0 for state in (await several.replicas.look()).values())


async def test_only_what_is_not_known_is_restored(several: Sessions) -> None:
    await several.replicas.close(ONE, 5)
    assert await several.replicas.unknown([ONE, TWO, THREE]) == [THREE]
    await several.replicas.restore({ONE: 9, TWO: 9, THREE: 9})
    assert await several.replicas.look() == {
        ONE: ReplicaState(open=False, version=5),
        TWO: ReplicaState(open=True, version=4),
        THREE: ReplicaState(open=True, version=9),
    }


@FEW
@given(steps=st.lists(st.tuples(st.sampled_from(["begin", "close", "open", "move"]), st.integers(0, 2)), max_size=25))
async def test_whatever_happens_no_call_is_given_to_a_closed_engine(client: Client, steps: list[tuple[str, int]]) -> None:
    sessions, names = await new_sessions(client), [ONE, TWO, THREE]
    shut: dict[str, bool] = {name: False for name in await sessions.replicas.look()}
    await sessions.create("r-a1", "s3cret", b"")
    await sessions.heartbeat("proxy-1")
    last: Begun | None = None
    for version, (what, n) in enumerate(steps):
        if what in ("close", "open"):
            await getattr(sessions.replicas, what)(names[n], version)
            shut[names[n]] = what == "close"
            continue
        reply = await (sessions.move(last) if what == "move" and last else sessions.begin("s3cret", "proxy-1"))
        assert (reply == "hold") == all(shut.values())
        if isinstance(reply, Begun):
            last = reply
            assert not shut[reply.replica]
            assert reply.version == await sessions.replicas.version(reply.replica)
