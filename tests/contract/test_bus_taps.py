"""What every bus shows to those who only watch."""

from __future__ import annotations

import asyncio

import pytest

from shared.errors import Rejected
from shared.events import CallRecorded, GroupDiscarded, Message, RolloutFailed, RolloutStart
from shared.subjects import dead_subject, matches, pattern_of, subject_of, tap_pattern
from tests.contract.bus_kit import AnyBus, Log, call, failed, start
from tests.waiting import until


@pytest.mark.parametrize("text", ["", "call", "call.recorded", "evt.rollout.*", "cmd", "forge.v1.>", "forge.*.evt.*.failed.>"])
async def test_a_tap_shows_what_its_pattern_matches(bus: AnyBus, run_id: str, text: str) -> None:
    pattern = tap_pattern(text, run_id)
    sent = [failed(run_id), call(run_id, 1), start(run_id, 0), GroupDiscarded(run_id=run_id, group_id="g", reason="x")]
    seen: list[tuple[str, Message | None]] = []
    tap = asyncio.create_task(watch(bus, pattern, run_id, seen))
    first = await tap_stands(bus, pattern, run_id, seen)
    for message in sent:
        await bus.publish(message)
    expected = [(subject_of(m), m) for m in sent if matches(pattern, subject_of(m))]
    await until(lambda: len(seen) - first >= len(expected))
    assert seen[first:] == expected
    tap.cancel()
    await asyncio.gather(tap, return_exceptions=True)


async def watch(bus: AnyBus, pattern: str, run_id: str, seen: list[tuple[str, Message | None]]) -> None:
    async for tapped in bus.tap(pattern):
        if run_id in tapped.subject:
            seen.append((tapped.subject, tapped.message))


async def tap_stands(bus: AnyBus, pattern: str, run_id: str, seen: list[tuple[str, Message | None]]) -> int:
    """Publishes strangers until the tap shows one. Returns how many it has shown."""
    kinds = [k for k in (RolloutFailed, CallRecorded, RolloutStart) if matches(pattern, pattern_of(k, run_id, "stranger"))]
    async with asyncio.timeout(10):
        while not seen:
            await bus.publish_raw(pattern_of(kinds[0], run_id, "stranger"), b"?", "stranger")
            await asyncio.sleep(0.01)
    assert all(message is None for _, message in seen)
    return len(seen)


async def test_a_tap_shows_dead_letters(bus: AnyBus, run_id: str) -> None:
    seen: list[tuple[str, Message | None]] = []
    tap = asyncio.create_task(watch(bus, dead_subject(tap_pattern("", run_id)), run_id, seen))
    await bus.consume("watch", [RolloutFailed], Log(lambda message, time: Rejected("no")), run_id=run_id)
    n = 0
    while not seen:
        await bus.publish(failed(run_id, n := n + 1))
        await asyncio.sleep(0.01)
    assert seen[0][0].startswith(dead_subject(pattern_of(RolloutFailed, run_id, "r")))
    assert isinstance(seen[0][1], RolloutFailed)
    tap.cancel()
    await asyncio.gather(tap, return_exceptions=True)


async def test_closing_ends_taps(bus: AnyBus, run_id: str) -> None:
    seen: list[tuple[str, Message | None]] = []
    tap = asyncio.create_task(watch(bus, tap_pattern("", run_id), run_id, seen))
    await tap_stands(bus, tap_pattern("", run_id), run_id, seen)
    await bus.close()
    await asyncio.wait_for(tap, 5)


async def test_what_was_published_before_can_be_read_in_the_order_of_its_times(bus: AnyBus, run_id: str) -> None:
    sent: list[Message] = []
    for n in range(1, 12):
        sent.append(call(run_id, n) if n % 2 else failed(run_id, n))
        await bus.publish(sent[-1])
        await asyncio.sleep(0.002)
    await bus.publish(call("other-run", 1))
    read = [(at, tapped.message) async for at, tapped in bus.history(tap_pattern("", run_id), 0.0)]
    assert [message for _, message in read] == sent
    for first in (0, 1, 5, 10):
        later = [tapped.message async for _, tapped in bus.history(tap_pattern("", run_id), read[first][0])]
        assert later == sent[first:]
    calls = [tapped.message async for _, tapped in bus.history(tap_pattern("call", run_id), read[4][0])]
    assert calls == [m for m in sent[4:] if isinstance(m, CallRecorded)]
    assert [m async for m in bus.history(tap_pattern("", run_id), read[-1][0] + 60)] == []
