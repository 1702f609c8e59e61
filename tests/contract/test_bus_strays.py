"""What is published on a subject of no message type: kept, once, and acknowledged."""

from __future__ import annotations

import nats
import pytest

from shared.bus.strays import REASON
from shared.events import RolloutFailed
from tests.contract.bus_kit import AnyBus, Log, NewBus, failed
from tests.embedded import MAX_PAYLOAD, Address
from tests.garbage import strays
from tests.waiting import until

SERVERS = pytest.mark.parametrize("bus_address", ["embedded", "container"], indirect=True)


async def test_every_stray_is_one_letter_whoever_keeps_them(new_bus: NewBus, run_id: str) -> None:
    buses, log = [await new_bus() for _ in range(3)], Log()
    for bus in buses[:2]:
        await bus.keep_strays()
    await buses[0].consume("watch", [RolloutFailed], log, run_id=run_id)
    for n, subject in enumerate(strays(run_id)):
        await buses[2].publish_raw(subject, b"%d" % n, f"{run_id}/{n}")
    await buses[2].publish(good := failed(run_id))
    await until(lambda: log.got == [good])
    letters = await buses[2].dead_letters()
    for letter in letters:  # those of no run are everybody's, and the server is not this test's alone
        await buses[2].drop(letter)
    assert [(x.subject, x.data, x.reason) for x in letters] == [
        (subject, b"%d" % n, REASON) for n, subject in enumerate(strays(run_id))
    ]
    assert sum(bus.counts["dead"] for bus in buses) == len(letters)


async def test_a_stray_that_is_replayed_is_another_letter(bus: AnyBus, run_id: str) -> None:
    await bus.keep_strays()
    await bus.publish_raw(strays(run_id)[0], b"?", run_id)
    [letter] = await bus.dead_letters()
    await bus.revive(letter)
    [again] = await bus.dead_letters()
    assert again.number > letter.number
    assert (again.subject, again.data) == (letter.subject, letter.data)


@SERVERS
async def test_a_stranger_is_told_where_its_message_is_kept(bus: AnyBus, run_id: str, bus_address: Address) -> None:
    await bus.keep_strays()
    client = await nats.connect(bus_address.url, nkeys_seed=bus_address.seed)
    ack = await client.jetstream().publish(strays(run_id)[0], b"asks for an answer")
    await client.publish(strays(run_id)[1], b"x" * MAX_PAYLOAD)
    await client.publish(strays(run_id)[1], b"", headers={"Status": "503"})
    await client.close()
    await until(lambda: bus.counts["dead"] == 3)
    letters = await bus.dead_letters()
    assert (ack.stream, ack.seq) == ("FORGE-DEAD", letters[0].number)
    assert [x.size for x in letters] == [18, MAX_PAYLOAD, 0]


@SERVERS
async def test_what_a_stream_of_another_version_takes_is_no_stray(bus: AnyBus, run_id: str, bus_address: Address) -> None:
    await bus.keep_strays()
    client = await nats.connect(bus_address.url, nkeys_seed=bus_address.seed)
    js, subject = client.jetstream(), f"forge.v1.evt.run.planned.{run_id}.k"
    name = f"LATER-{run_id}"
    await js.add_stream(name=name, subjects=[subject])
    assert (await js.publish(subject, b"{}")).stream == name
    await js.publish(strays(run_id)[0], b"one that comes after it")
    await js.delete_stream(name)
    await js.publish(subject, b"now it is one")
    await client.close()
    assert [x.data for x in await bus.dead_letters()] == [b"one that comes after it", b"now it is one"]


async def test_what_comes_again_is_counted_by_type(bus: AnyBus, run_id: str) -> None:
    log = Log(lambda message, time: OSError() if time == 1 else None)
    await bus.consume("watch", [RolloutFailed], log, run_id=run_id)
    for _ in range(3):
        await bus.publish(failed(run_id))
    await until(lambda: bus.counts["handled"] == 1)
    assert bus.repeats == {"published rollout.failed": 2, "delivered rollout.failed": 1}
