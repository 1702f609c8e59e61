"""What the bus keeps of a run can be listed and read again, also what was handled."""

from __future__ import annotations

from shared.bus import Bus
from shared.events import CallRecorded, GroupCompleted, GroupDiscarded, Message, RolloutFailed
from shared.subjects import pattern_of
from tests.contract.bus_kit import AnyBus, Log, NewBus, call, failed
from tests.waiting import until


async def read(bus: Bus, kind: type[Message], run_id: str, key: str = "*", after: int = 0) -> list[tuple[int, Message]]:
    return [found async for found in bus.replay(kind, run_id, key, after)]


async def test_events_of_all_keys_are_read_in_order(bus: AnyBus, run_id: str) -> None:
    sent = [failed(run_id, n) for n in (2, 0, 1)]
    for message in (*sent, failed(run_id + "-other", 5), call(run_id, 1)):
        await bus.publish(message)
    found = await read(bus, RolloutFailed, run_id)
    assert [message for _, message in found] == sent
    assert [message for _, message in await read(bus, RolloutFailed, run_id, after=found[0][0])] == sent[1:]
    assert [message for _, message in await read(bus, RolloutFailed, run_id, "r0")] == [sent[1]]


async def test_keys_are_listed_without_reading(bus: AnyBus, run_id: str) -> None:
    assert await bus.keys(RolloutFailed, run_id) == set()
    for message in (failed(run_id, 2), failed(run_id, 0), failed(run_id + "-other", 5), call(run_id, 1)):
        await bus.publish(message)
    assert await bus.keys(RolloutFailed, run_id) == {"r0", "r2"}
    assert await bus.keys(RolloutFailed, run_id, "r2") == {"r2"}
    assert await bus.keys(RolloutFailed, run_id, "r1") == set()
    assert await bus.keys(CallRecorded, run_id) == {"r"}


async def test_what_is_no_message_is_passed_over(bus: AnyBus, run_id: str) -> None:
    await bus.publish_raw(pattern_of(RolloutFailed, run_id, "stranger"), b"garbage", f"{run_id}/stranger")
    await bus.publish(good := failed(run_id, 1))
    assert [message for _, message in await read(bus, RolloutFailed, run_id)] == [good]


async def test_groups_that_were_handled_are_still_known(new_bus: NewBus, run_id: str) -> None:
    bus, another = await new_bus(), await new_bus()
    log, late = Log(), Log()
    await bus.consume("trainer-groups", [GroupCompleted, GroupDiscarded], log, run_id=run_id)
    sent = [GroupDiscarded(run_id=run_id, group_id="g1", reason="no_variance"), GroupCompleted(run_id=run_id, group_id="g2")]
    for message in sent:
        await bus.publish(message)
    await until(lambda: bus.counts["handled"] == 2)
    assert await another.keys(GroupCompleted, run_id) == {"g2"}
    assert await another.keys(GroupDiscarded, run_id) == {"g1"}
    await another.consume("archive", [GroupCompleted, GroupDiscarded], late, run_id=run_id)
    await until(lambda: another.counts["handled"] == 2)
    assert log.got == late.got == sent
