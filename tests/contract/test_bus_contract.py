"""What every bus promises: stated once, for the in-memory twin, for the embedded NATS server, and for one in a container."""

from __future__ import annotations

import asyncio

import pytest

from shared.errors import ConfigError, Rejected
from shared.events import CallRecorded, GroupDiscarded, Message, RolloutFailed, RolloutStart, encode
from shared.subjects import pattern_of, subject_of
from tests.contract.bus_kit import ACK_WAIT_S, MAX_DELIVER, AnyBus, Log, NewBus, call, failed, start
from tests.embedded import MAX_PAYLOAD
from tests.waiting import until


async def test_messages_published_before_and_after_the_consumer_came_are_handled_in_order(bus: AnyBus, run_id: str) -> None:
    log, sent = Log(), [failed(run_id, n) for n in range(6)]
    for message in sent[:3]:
        await bus.publish(message)
    await bus.consume("watch", [RolloutFailed], log, run_id=run_id)
    for message in sent[3:]:
        await bus.publish(message)
    await until(lambda: len(log.got) == 6)
    assert log.got == sent
    assert bus.counts == {"handled": 6}


async def test_a_bus_that_is_there_answers(bus: AnyBus) -> None:
    await bus.ping()


async def test_an_id_is_kept_once(bus: AnyBus, run_id: str) -> None:
    log, first, last = Log(), failed(run_id, 0), failed(run_id, 1)
    await asyncio.gather(*(bus.publish(first) for _ in range(5)))
    await bus.publish(failed(run_id, 0, detail="another body under the same id"))
    await bus.publish(last)
    await bus.consume("watch", [RolloutFailed], log, run_id=run_id)
    await until(lambda: last in log.got)
    assert log.got == [first, last]


async def test_equal_ids_of_two_runs_are_two_messages(bus: AnyBus, run_id: str) -> None:
    log, other = Log(), run_id + "-other"
    await bus.publish(failed(other))
    await bus.publish(failed(run_id))
    await bus.consume("watch", [RolloutFailed], log, run_id=run_id)
    await bus.consume("watch", [RolloutFailed], log, run_id=other)
    await until(lambda: len(log.got) == 2)
    assert {m.run_id for m in log.got} == {run_id, other}


async def test_a_failed_delivery_comes_again(bus: AnyBus, run_id: str) -> None:
    log = Log(lambda message, time: RuntimeError("not yet") if time < MAX_DELIVER else None)
    await bus.consume("watch", [RolloutFailed], log, run_id=run_id)
    await bus.publish(failed(run_id))
    await until(lambda: bus.counts["handled"] == 1)
    assert bus.counts == {"later": MAX_DELIVER - 1, "handled": 1}
    assert await bus.dead_letters() == []


async def test_what_fails_every_time_becomes_a_dead_letter_and_holds_nobody_up(bus: AnyBus, run_id: str) -> None:
    bad, good = failed(run_id, 0), failed(run_id, 1)
    log = Log(lambda message, time: RuntimeError("ever\nagain") if message == bad else None)
    await bus.consume("watch", [RolloutFailed], log, run_id=run_id)
    await bus.publish(bad)
    await bus.publish(good)
    await until(lambda: bus.counts["dead"] == 1)
    assert log.got.count(bad) == MAX_DELIVER
    assert log.got.index(good) == 1
    [letter] = await bus.dead_letters()
    assert (letter.subject, letter.data, letter.reason) == (subject_of(bad), encode(bad), "RuntimeError: ever again")
    assert letter.consumer.startswith("watch")


async def test_what_is_rejected_becomes_a_dead_letter_at_once(bus: AnyBus, run_id: str) -> None:
    log = Log(lambda message, time: Rejected("no such task — ever"))
    await bus.consume("orchestrator", [RolloutStart], log, run_id=run_id)
    for n in range(2):
        await bus.publish(start(run_id, n))
    await until(lambda: bus.counts["dead"] == 2)
    assert len(log.got) == 2
    assert [x.data for x in await bus.dead_letters()] == [encode(m) for m in log.got]


@pytest.mark.parametrize(
    "body",
    [b"", b"\xff\xfe", b"{}", b'{"type":"call.invented","run_id":"x"}', b'{"type":"rollout.failed","run_id":1}', b"[" * 5000],
    ids=["empty", "no text", "no type", "unknown type", "wrong field", "deep"],
)
async def test_what_is_no_message_becomes_a_dead_letter(bus: AnyBus, run_id: str, body: bytes) -> None:
    log, good = Log(), failed(run_id, 1)
    await bus.consume("watch", [RolloutFailed], log, run_id=run_id)
    await bus.publish_raw(pattern_of(RolloutFailed, run_id, "stranger"), body, f"{run_id}/stranger")
    await bus.publish(good)
    await until(lambda: log.got == [good] and bus.counts["dead"] == 1)
    assert [x.data for x in await bus.dead_letters()] == [body]


async def test_a_message_of_a_type_that_was_not_asked_for_becomes_a_dead_letter(bus: AnyBus, run_id: str) -> None:
    log = Log()
    await bus.consume("watch", [RolloutFailed], log, run_id=run_id)
    await bus.publish_raw(subject_of(failed(run_id)), encode(start(run_id, 0)), f"{run_id}/stranger")
    await until(lambda: bus.counts["dead"] == 1)
    [letter] = await bus.dead_letters()
    assert "nobody asked for a RolloutStart" in letter.reason
    assert log.got == []


async def test_a_message_that_is_too_large_is_rejected_and_the_bus_lives_on(bus: AnyBus, run_id: str) -> None:
    log = Log()
    await bus.consume("watch", [RolloutFailed], log, run_id=run_id)
    for size in (MAX_PAYLOAD - 10_000, MAX_PAYLOAD, 3 * MAX_PAYLOAD):
        with pytest.raises(Rejected, match="more than the bus takes"):
            await bus.publish(failed(run_id, 0, detail="x" * size))
    large = failed(run_id, 1, detail="x" * (MAX_PAYLOAD - 70_000))
    await bus.publish(large)
    await until(lambda: log.got == [large])


async def test_what_was_handled_or_given_up_does_not_come_again(bus: AnyBus, run_id: str) -> None:
    good, bad = failed(run_id, 0), failed(run_id, 1)
    log = Log(lambda message, time: Rejected("no") if message == bad else None)
    await bus.consume("watch", [RolloutFailed], log, run_id=run_id)
    await bus.publish(good)
    await bus.publish(bad)
    await until(lambda: bus.counts == {"handled": 1, "dead": 1})
    await asyncio.sleep(1.5 * ACK_WAIT_S)  # by then the server would have delivered again what it has no answer to
    assert log.got == [good, bad]


async def test_processes_of_one_durable_share_the_work(new_bus: NewBus, run_id: str) -> None:
    first, second, both = await new_bus(), await new_bus(), asyncio.Barrier(2)
    got: list[Message] = []

    async def handle(message: Message) -> None:
        await both.wait()  # passes only when two messages are handled at the same time
        got.append(message)

    for bus in (first, second):
        await bus.consume("orchestrator", [RolloutStart], handle, run_id=run_id)
    sent = [start(run_id, n) for n in range(10)]
    for message in sent:
        await first.publish(message)
    await until(lambda: first.counts["handled"] + second.counts["handled"] == 10)
    assert sorted(m.key for m in got) == [m.key for m in sent]
    assert first.counts["handled"] == second.counts["handled"] == 5


async def test_a_busy_process_takes_no_more_than_it_has_places_for(new_bus: NewBus, run_id: str) -> None:
    busy, idle, go_on = await new_bus(), await new_bus(), asyncio.Event()
    held: list[Message] = []

    async def hold(message: Message) -> None:
        held.append(message)
        await go_on.wait()

    await busy.consume("orchestrator", [RolloutStart], hold, run_id=run_id, concurrency=2)
    for n in range(6):
        await busy.publish(start(run_id, n))
    await until(lambda: len(held) == 2)
    await idle.consume("orchestrator", [RolloutStart], log := Log(), run_id=run_id, concurrency=2)
    await until(lambda: idle.counts["handled"] == 4)
    go_on.set()
    await until(lambda: busy.counts["handled"] == 2)
    assert sorted(m.key for m in held + log.got) == [f"r{n}" for n in range(6)]


async def test_each_durable_gets_every_event(bus: AnyBus, run_id: str) -> None:
    one, two, sent = Log(), Log(), [failed(run_id, n) for n in range(3)]
    await bus.consume("one", [RolloutFailed], one, run_id=run_id)
    await bus.consume("two", [RolloutFailed], two, run_id=run_id)
    for message in sent:
        await bus.publish(message)
    await until(lambda: len(one.got) == len(two.got) == 3)
    assert one.got == two.got == sent


async def test_no_more_handlers_run_at_once_than_was_set_whatever_the_streams(bus: AnyBus, run_id: str) -> None:
    running, most, done = 0, 0, 0

    async def handle(message: Message) -> None:
        nonlocal running, most, done
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        running -= 1
        done += 1

    await bus.consume("collector", [RolloutFailed, CallRecorded, GroupDiscarded], handle, run_id=run_id, concurrency=3)
    for n in range(6):
        await bus.publish(failed(run_id, n))
        await bus.publish(call(run_id, n + 1))
        await bus.publish(GroupDiscarded(run_id=run_id, group_id=f"g{n}", reason="no_variance"))
    await until(lambda: done == 18)
    assert most == 3


async def test_a_consumer_that_comes_back_goes_on_where_it_stopped(new_bus: NewBus, run_id: str) -> None:
    before, after, sent = Log(), Log(), [failed(run_id, n) for n in range(6)]
    old, publisher = await new_bus(), await new_bus()
    await old.consume("watch", [RolloutFailed], before, run_id=run_id)
    for message in sent[:3]:
        await publisher.publish(message)
    await until(lambda: old.counts["handled"] == 3)
    await old.close()
    for message in sent[3:]:
        await publisher.publish(message)
    new = await new_bus()
    await new.consume("watch", [RolloutFailed], after, run_id=run_id)
    await until(lambda: len(after.got) == 3)
    assert (before.got, after.got) == (sent[:3], sent[3:])


async def test_closing_waits_for_the_handler_that_runs(new_bus: NewBus, run_id: str) -> None:
    old, new = await new_bus(), await new_bus()
    entered, finished, again = asyncio.Event(), asyncio.Event(), Log()

    async def handle(message: Message) -> None:
        entered.set()
        await asyncio.sleep(0.2)
        finished.set()

    await old.consume("watch", [RolloutFailed], handle, run_id=run_id)
    await old.publish(failed(run_id, 0))
    await entered.wait()
    await old.close()
    assert finished.is_set()
    await old.close()  # doing it again changes nothing
    await new.consume("watch", [RolloutFailed], again, run_id=run_id)
    await new.publish(last := failed(run_id, 1))
    await until(lambda: last in again.got)
    assert again.got == [last]


async def test_a_message_stays_with_a_handler_that_takes_long(new_bus: NewBus, run_id: str) -> None:
    slow, idle, calls = await new_bus(), await new_bus(), 0

    async def handle(message: Message) -> None:
        nonlocal calls
        calls += 1
        await asyncio.sleep(2.5 * ACK_WAIT_S)

    for bus in (slow, idle):
        await bus.consume("trainer", [GroupDiscarded], handle, run_id=run_id)
    await slow.publish(GroupDiscarded(run_id=run_id, group_id="g", reason="no_variance"))
    await until(lambda: slow.counts["handled"] + idle.counts["handled"] == 1)
    assert calls == 1


@pytest.mark.parametrize("bus_address", ["embedded", "container"], indirect=True)
async def test_a_second_durable_for_commands_is_refused(bus: AnyBus, run_id: str) -> None:
    await bus.consume("orchestrator", [RolloutStart], Log(), run_id=run_id)
    with pytest.raises(ConfigError, match="FORGE-COMMANDS"):
        await bus.consume("another", [RolloutStart], Log(), run_id=run_id)
