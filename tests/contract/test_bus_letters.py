"""Dead letters: what is known of them, and what becomes of those that are published again or dropped."""

from __future__ import annotations

import time

import nats
import nats.js.errors
import pytest
from nats.aio.client import Client

from shared.bus import DeadLetter
from shared.errors import Rejected
from shared.events import Message, RolloutFailed, RolloutStart, encode
from shared.subjects import dead_subject, pattern_of, subject_of
from tests.contract.bus_kit import AnyBus, Log, NewBus, failed, start
from tests.embedded import MAX_PAYLOAD, Address
from tests.waiting import until


class Moody(Log):
    """A handler that turns everything down until it is told otherwise."""

    def __init__(self) -> None:
        super().__init__(lambda message, time: Rejected("not today") if self.refuses else None)
        self.refuses = True


async def give_up(bus: AnyBus, log: Log, *messages: Message) -> list[DeadLetter]:
    """The dead letters of messages that a consumer turns down."""
    await bus.consume("watch", [type(messages[0])], log, run_id=messages[0].run_id)
    for message in messages:
        await bus.publish(message)
    await until(lambda: bus.counts["dead"] == len(messages))
    return await bus.dead_letters()


async def test_a_dead_letter_says_what_is_known_of_it(bus: AnyBus, run_id: str) -> None:
    began = time.time()
    [letter] = await give_up(bus, Moody(), message := failed(run_id))
    assert (letter.subject, letter.data, letter.size) == (subject_of(message), encode(message), len(encode(message)))
    assert letter.reason == "not today"
    assert letter.consumer.startswith("watch")
    assert began - 1 < letter.at < time.time() + 1
    assert letter.number > 0


@pytest.mark.parametrize("message_of", [failed, start], ids=["event", "command"])
async def test_a_revived_letter_is_handled_and_gone(bus: AnyBus, run_id: str, message_of: type) -> None:
    log, messages = Moody(), [message_of(run_id, n) for n in range(3)]
    letters = await give_up(bus, log, *messages)
    log.refuses = False
    await bus.revive(letters[1])
    await until(lambda: bus.counts["handled"] == 1)
    assert log.got == [*messages, messages[1]]
    assert await bus.dead_letters() == [letters[0], letters[2]]


async def test_others_who_listen_get_a_revived_event_again(bus: AnyBus, run_id: str) -> None:
    log, other = Moody(), Log()
    await bus.consume("other", [RolloutFailed], other, run_id=run_id)
    [letter] = await give_up(bus, log, message := failed(run_id))
    await bus.revive(letter)
    await until(lambda: len(other.got) == 2 and bus.counts["dead"] == 2)
    assert other.got == [message, message]


async def test_reviving_twice_is_reviving_once(bus: AnyBus, run_id: str) -> None:
    log = Moody()
    [letter] = await give_up(bus, log, message := failed(run_id))
    log.refuses = False
    for _ in range(2):
        await bus.revive(letter)
    await bus.publish(last := failed(run_id, 1))
    await until(lambda: last in log.got)
    assert log.got == [message, message, last]


async def test_what_is_given_up_again_is_another_letter(bus: AnyBus, run_id: str) -> None:
    [letter] = await give_up(bus, Moody(), failed(run_id))
    await bus.revive(letter)
    await until(lambda: bus.counts["dead"] == 2)
    [again] = await bus.dead_letters()
    assert again.number > letter.number
    assert (again.subject, again.data) == (letter.subject, letter.data)
    await bus.revive(again)
    await until(lambda: bus.counts["dead"] == 3)


async def test_a_dropped_letter_is_gone(new_bus: NewBus, run_id: str) -> None:
    bus, another = await new_bus(), await new_bus()
    letters = await give_up(bus, Moody(), failed(run_id, 0), failed(run_id, 1))
    for _ in range(2):
        await another.drop(letters[0])
    assert await another.dead_letters() == await bus.dead_letters() == letters[1:]


async def test_a_letter_without_its_end_cannot_be_revived(bus: AnyBus) -> None:
    letter = DeadLetter(number=1, at=0.0, subject="s", consumer="c", reason="r", size=3, data=b"12")
    with pytest.raises(Rejected, match="2 of 3 bytes"):
        await bus.revive(letter)


async def stranger(address: Address) -> Client:
    """A client that is none of ours."""
    return await nats.connect(address.url, nkeys_seed=address.seed)


@pytest.mark.parametrize("bus_address", ["embedded", "container"], indirect=True)
async def test_the_largest_message_of_a_stranger_is_kept_as_far_as_there_is_room(
    bus: AnyBus, run_id: str, bus_address: Address
) -> None:
    log = Log()
    await bus.consume("watch", [RolloutFailed], log, run_id=run_id)
    client = await stranger(bus_address)
    await client.publish(pattern_of(RolloutFailed, run_id, "r0"), b"x" * MAX_PAYLOAD)
    await client.close()
    await until(lambda: bus.counts["dead"] == 1)
    [letter] = await bus.dead_letters()
    assert (letter.size, letter.data) == (MAX_PAYLOAD, b"x" * len(letter.data))
    assert MAX_PAYLOAD - 100_000 < len(letter.data) < MAX_PAYLOAD
    with pytest.raises(Rejected, match="without its end"):
        await bus.revive(letter)


@pytest.mark.parametrize("bus_address", ["embedded", "container"], indirect=True)
async def test_what_a_stranger_puts_among_the_dead_letters_is_listed(bus: AnyBus, run_id: str, bus_address: Address) -> None:
    client = await stranger(bus_address)
    js = client.jetstream()
    subject = subject_of(failed(run_id))
    await js.publish(dead_subject(subject), b"boo", headers={"Forge-Size": "many"})
    await client.close()
    [letter] = await bus.dead_letters()
    assert (letter.subject, letter.consumer, letter.reason, letter.size, letter.data) == (subject, "", "", 3, b"boo")


@pytest.mark.parametrize("bus_address", ["embedded", "container"], indirect=True)
async def test_a_stray_is_refused_to_its_sender_while_nobody_keeps_them(bus: AnyBus, run_id: str, bus_address: Address) -> None:
    client = await stranger(bus_address)
    for subject in (f"forge.v1.evt.run.dreamt.{run_id}.k", f"forge.v1.cmd.rollout.dreamt.{run_id}.k", "forge.v1.evt.call.x"):
        with pytest.raises(nats.js.errors.NoStreamResponseError):
            await client.jetstream().publish(subject, b"{}")
    await client.jetstream().publish(pattern_of(RolloutStart, run_id, "k"), b"{}")
    await client.close()
