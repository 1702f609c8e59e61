"""What the store promises: stated once, for fakeredis, for the embedded valkey server, and for Redis in a container."""

from __future__ import annotations

import asyncio
import random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shared.store.assembly import Assembly
from shared.store.connect import Client
from shared.store.sessions import Begun, CallEnd, Seal, Sessions
from tests.contract.store_kit import ENGINE, begun, new_assembly, new_run, new_sessions
from tests.waiting import eventually

FEW = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


# --- sessions ----------------------------------------------------------------------------------------------------------


async def test_calls_of_a_session_are_numbered_and_carry_its_meta_and_the_version(sessions: Sessions) -> None:
    assert await sessions.create("r1-a1", "s3cret", b"\x00meta")
    assert await begun(sessions) == Begun("r1-a1", b"\x00meta", 1, 0, ENGINE)
    await sessions.replicas.open(ENGINE, 7)
    assert await begun(sessions) == Begun("r1-a1", b"\x00meta", 2, 7, ENGINE)
    assert await sessions.replicas.version(ENGINE) == 7


async def test_numbers_are_unique_under_concurrency(sessions: Sessions) -> None:
    await sessions.create("r1-a1", "s3cret", b"")
    numbers = [b.seq for b in await asyncio.gather(*(begun(sessions, proxy=f"proxy-{n % 3}") for n in range(40)))]
    assert sorted(numbers) == list(range(1, 41))


async def test_why_a_call_may_not_begin(sessions: Sessions) -> None:
    assert await sessions.begin("s3cret", "proxy-1") == "unknown"
    await sessions.create("r1-a1", "s3cret", b"")
    await sessions.replicas.close(ENGINE, 0)
    assert await sessions.begin("s3cret", "proxy-1") == "hold"
    await sessions.replicas.open(ENGINE, 1)
    await begun(sessions)
    await sessions.seal("r1-a1", 0)
    assert await sessions.begin("s3cret", "proxy-1") == "sealed"


async def test_calls_that_come_at_once_get_an_answer_each(sessions: Sessions) -> None:
    for name in ("open", "sealed"):
        await sessions.create(f"{name}-a1", f"secret of {name}", name.encode())
    await sessions.seal("sealed-a1", 0)
    secrets = [f"secret of {name}" for name in ("open", "sealed", "nobody", "open", "sealed")]
    replies = await asyncio.gather(*(sessions.begin(secret, "proxy-1") for secret in secrets))
    assert replies == [
        Begun("open-a1", b"open", 1, 0, ENGINE),
        "sealed",
        "unknown",
        Begun("open-a1", b"open", 2, 0, ENGINE),
        "sealed",
    ]


async def test_a_call_that_nobody_waits_for_any_more_is_settled(sessions: Sessions) -> None:
    await sessions.create("r1-a1", "s3cret", b"")
    await sessions.heartbeat("proxy-1")
    leaving, staying = [asyncio.create_task(sessions.begin("s3cret", "proxy-1")) for _ in range(2)]
    await asyncio.sleep(0)  # both have asked
    leaving.cancel()
    reply = await staying
    assert isinstance(reply, Begun)
    await sessions.end("r1-a1", reply.seq, "delivered")
    assert await sessions.seal("r1-a1", 5) == Seal(2, errored=[3 - reply.seq])


async def test_a_session_is_opened_once_with_one_secret(sessions: Sessions) -> None:
    assert await sessions.create("r1-a1", "s3cret", b"meta")
    await begun(sessions)
    assert await sessions.create("r1-a1", "s3cret", b"other meta")
    assert (await begun(sessions)).meta == b"meta"
    assert not await sessions.create("r1-a1", "another", b"meta")
    assert await sessions.begin("another", "proxy-1") == "unknown"
    await sessions.seal("r1-a1", 0)
    assert not await sessions.create("r1-a1", "s3cret", b"meta")


async def test_sealing_what_does_not_exist_is_none(sessions: Sessions) -> None:
    assert await sessions.seal("r1-a1", 5) is None


async def test_a_reward_may_change_until_the_session_is_finished(sessions: Sessions) -> None:
    assert not await sessions.score("r1-a1", 1.0)
    assert await sessions.finish("r1-a1") is None
    await sessions.create("r1-a1", "s3cret", b"meta")
    for reward in (1.0, -1e-7):
        assert await sessions.score("r1-a1", reward)
    await sessions.seal("r1-a1", 0)
    assert await sessions.score("r1-a1", 0.1)
    assert [await sessions.finish("r1-a1") for _ in range(2)] == [0.1, 0.1]
    assert not await sessions.score("r1-a1", 2.0)
    await sessions.create("r2-a1", "another", b"meta")
    assert [await sessions.finish("r2-a1") for _ in range(2)] == [None, None]
    assert not await sessions.score("r2-a1", 2.0)


ENDS: list[CallEnd | None] = ["delivered", "cut", "errored", None]


@FEW
@given(ends=st.lists(st.sampled_from(ENDS), max_size=8), seed=st.integers(0, 99))
async def test_a_seal_tells_of_every_call_whatever_the_order(client: Client, ends: list[CallEnd | None], seed: int) -> None:
    sessions, order = await new_sessions(client), random.Random(seed)
    await sessions.create("r1-a1", "s3cret", b"")
    numbered = [(end, (await begun(sessions)).seq) for end in ends]
    order.shuffle(numbered)
    for _ in range(2):  # every end is told twice
        await asyncio.gather(*(sessions.end("r1-a1", seq, end) for end, seq in numbered if end is not None))
    sealed = await sessions.seal("r1-a1", 5)  # the proxy never gave a sign of life: what it has open is not waited for
    told = {end: sorted(seq for e, seq in numbered if e == end) for end in ENDS}
    assert sealed == Seal(len(ends), told["errored"], told["cut"], told[None])
    for seq in told[None]:
        await sessions.end("r1-a1", seq, "delivered")  # too late
    assert await sessions.seal("r1-a1", 0) == sealed
    assert await sessions.replicas.in_flight() == 0


async def test_sealing_waits_for_the_open_calls_of_a_living_proxy(sessions: Sessions) -> None:
    await sessions.create("r1-a1", "s3cret", b"")
    await sessions.heartbeat("proxy-1")
    first, _ = await begun(sessions), await begun(sessions)
    sealing = asyncio.create_task(sessions.seal("r1-a1", 0.5))

    async def is_sealed() -> bool:
        return await sessions.begin("s3cret", "proxy-1") == "sealed"

    await eventually(is_sealed)
    await sessions.end("r1-a1", first.seq, "cut")
    sealed = await sealing
    assert sealed is not None
    assert (sealed.cut, first.seq in sealed.lost, len(sealed.lost)) == ([1], False, sealed.calls - 1)


async def test_calls_in_flight_are_those_of_living_proxies(sessions: Sessions) -> None:
    await sessions.create("r1-a1", "s3cret", b"")
    call, _ = await begun(sessions, proxy="alive"), await begun(sessions, proxy="dead")
    assert await sessions.replicas.in_flight() == 0
    await sessions.heartbeat("alive")
    assert await sessions.replicas.in_flight() == 1
    await sessions.end("r1-a1", call.seq, "delivered")
    assert await sessions.replicas.in_flight() == 0


async def test_no_call_begins_at_a_closed_replica(sessions: Sessions) -> None:
    await sessions.create("r1-a1", "s3cret", b"")
    await sessions.heartbeat("proxy-1")
    calls = [asyncio.create_task(sessions.begin("s3cret", "proxy-1")) for _ in range(30)]
    await sessions.replicas.close(ENGINE, 0)
    in_flight = await sessions.replicas.in_flight()
    replies = await asyncio.gather(*calls)
    assert in_flight == sum(isinstance(r, Begun) for r in replies) == await sessions.replicas.in_flight()
    assert {r for r in replies if isinstance(r, str)} <= {"hold"}


# --- assembly ----------------------------------------------------------------------------------------------------------


async def test_a_call_is_kept_once_and_a_contradiction_is_remembered(assembly: Assembly) -> None:
    assert [(await assembly.put_call("s-a1", 1, b)).kind for b in (b"one", b"one")] == ["new", "same"]
    assert (await assembly.load("s-a1")).conflict is None
    assert (await assembly.put_call("s-a1", 1, b"other")).kind == "other"
    await assembly.put_part("s-a1", "sealed", b"seal")
    await assembly.put_part("s-a1", "sealed", b"another seal")
    parts = await assembly.load("s-a1")
    assert (parts.calls, parts.sealed, parts.outcome, parts.conflict) == ({1: b"one"}, b"seal", None, "1")
    assert await assembly.ends("s-a1") == (b"seal", None)
    assert await assembly.call_numbers("s-a1") == {1}


async def test_keeping_a_call_tells_what_is_known_of_its_attempt(assembly: Assembly) -> None:
    assert await assembly.put_call("r-a1", 1, b"one") == ("new", False, False)
    await assembly.put_part("r-a1", "outcome", b"end")
    assert await assembly.put_call("r-a1", 2, b"two") == ("new", True, False)
    await assembly.settle("g", "r-a1", "r", 1, b"settled")
    assert await assembly.put_call("r-a1", 2, b"two") == ("same", True, True)
    assert await assembly.put_call("r-a2", 1, b"one") == ("new", False, False)


PARTS: list[tuple[str, int]] = [(f"r{n}", attempt) for n in range(3) for attempt in (1, 2)]


@FEW
@given(order=st.permutations(PARTS * 2))
async def test_any_order_and_number_of_settlings_gives_the_same_group(client: Client, order: list[tuple[str, int]]) -> None:
    collectors = [await new_assembly(client, run := new_run()), Assembly(client, run), Assembly(client, run)]
    assert await collectors[0].open_group("g", b"info", 1.0) == "open"
    await asyncio.gather(
        *(
            collectors[i % 3].settle("g", f"{rollout}-a{attempt}", rollout, attempt, f"{rollout}/{attempt}".encode())
            for i, (rollout, attempt) in enumerate(order)
        )
    )
    state = await collectors[1].group("g")
    assert state.settled == {(r, a): f"{r}/{a}".encode() for r, a in PARTS}
    assert (state.info, state.closed) == (b"info", False)
    assert await collectors[2].is_settled("g", "r0", 2)
    assert not await collectors[2].is_settled("g", "r0", 3)


async def test_the_first_settling_of_an_attempt_stays(assembly: Assembly) -> None:
    assert [await assembly.settle("g", "r-a1", "r", 1, body) for body in (b"first", b"second")] == [True, True]
    assert (await assembly.group("g")).settled == {("r", 1): b"first"}


async def test_nothing_is_settled_in_a_group_that_is_closed(assembly: Assembly) -> None:
    assert await assembly.settle("g", "r1-a1", "r1", 1, b"in time")
    seen = await assembly.group("g")
    assert await assembly.close_group("g", b"message", seen) == "closed"
    assert await assembly.settle("g", "r1-a1", "r1", 1, b"in time")
    assert not await assembly.settle("g", "r2-a1", "r2", 1, b"late")
    assert (await assembly.group("g")).settled == seen.settled


async def test_a_group_is_not_closed_by_who_has_not_seen_all_of_it(assembly: Assembly) -> None:
    seen = await assembly.group("g")
    await assembly.settle("g", "r1-a1", "r1", 1, b"body")
    assert await assembly.close_group("g", b"message", seen) == "changed"
    assert await assembly.outbox() == []
    assert await assembly.close_group("g", b"message", await assembly.group("g")) == "closed"
    assert await assembly.close_group("g", b"message", seen) == "before"


@FEW
@given(closers=st.integers(2, 12), groups=st.integers(1, 3))
async def test_a_group_is_closed_exactly_once(client: Client, closers: int, groups: int) -> None:
    collectors = [await new_assembly(client, run := new_run()), *(Assembly(client, run) for _ in range(closers - 1))]
    for g in range(groups):
        await collectors[0].open_group(f"g{g}", b"info", 1.0)
    tries = [(g, n) for g in range(groups) for n in range(closers)]
    seen = {g: await collectors[0].group(f"g{g}") for g in range(groups)}
    done = await asyncio.gather(*(collectors[n].close_group(f"g{g}", f"{g}/{n}".encode(), seen[g]) for g, n in tries))
    assert set(done) == {"closed", "before"}
    bodies = [f"{g}/{n}".encode() for (g, n), how in zip(tries, done, strict=True) if how == "closed"]
    assert len(bodies) == groups
    assert sorted(body for _, body in await collectors[0].outbox()) == sorted(bodies)
    assert await collectors[0].overdue(2.0) == []
    assert await collectors[0].open_group("g0", b"info", 3.0) == "closed"
    assert (await collectors[0].group("g0")).closed


async def test_a_closed_group_stays_closed_when_its_state_has_expired(client: Client) -> None:
    assembly = await new_assembly(client, ttl_s=1)
    await assembly.open_group("g", b"info", 1.0)
    await assembly.settle("g", "r-a1", "r", 1, b"body")
    assert await assembly.close_group("g", b"message", await assembly.group("g")) == "closed"

    async def has_expired() -> bool:
        return not (await assembly.group("g")).settled

    await eventually(has_expired)
    assert await assembly.is_closed("g")
    assert await assembly.open_group("g", b"info", 9.0) == "closed"
    assert await assembly.close_group("g", b"message", await assembly.group("g")) == "before"


async def test_groups_are_overdue_by_when_they_were_first_opened(assembly: Assembly) -> None:
    for name, opened in (("late", 30.0), ("early", 10.0), ("early", 99.0)):
        assert await assembly.open_group(name, b"info", opened) == "open"
    assert await assembly.overdue(20.0) == ["early"]
    assert await assembly.overdue(100.0) == ["early", "late"]


async def test_the_outbox_keeps_messages_in_order_until_they_are_published(assembly: Assembly) -> None:
    for n in range(3):
        await assembly.close_group(f"g{n}", f"m{n}".encode(), await assembly.group(f"g{n}"))
    [(first, _), *rest] = await assembly.outbox()
    await assembly.published(first)
    await assembly.published(first)
    assert await assembly.outbox() == rest
    assert [body for _, body in await assembly.outbox(count=1)] == [b"m1"]


async def test_the_last_attempt_of_a_rollout_is_noted_once(assembly: Assembly) -> None:
    await assembly.end_rollout("g", "r", 2)
    await assembly.end_rollout("g", "r", 3)
    assert (await assembly.group("g")).settled == {("r", 0): b"2"}


async def test_a_group_that_is_announced_otherwise_than_before_stays_what_it_was(assembly: Assembly) -> None:
    told = [await assembly.open_group("g", info, 1.0) for info in (b"info", b"info", b"other", b"info")]
    assert told == ["open", "open", "other", "open"]
    state = await assembly.group("g")
    assert (state.info, state.settled, state.closed) == (b"info", {}, False)
    await assembly.close_group("g", b"message", state)
    assert await assembly.open_group("g", b"other", 1.0) == "closed"
