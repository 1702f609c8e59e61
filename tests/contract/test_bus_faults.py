"""What happens to messages when the server, or a consumer, is killed."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from functools import partial
from itertools import count
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from services.dev.keys import make_keys
from shared.bus.nats import NatsBus, connect_nats
from shared.config import BusConfig
from shared.errors import BusUnavailable
from shared.events import Message, WeightsLoaded
from shared.keys import OPERATOR
from tests.embedded import MAX_PAYLOAD, Server
from tests.waiting import until

RUN = "run-1"


def config_of(server: Server) -> BusConfig:
    return BusConfig(
        url=server.address.url,
        keys=server.address.keys,
        max_payload=MAX_PAYLOAD,
        max_bytes=64 * 1024 * 1024,
        ack_wait_s=0.5,
        max_deliver=3,
        timeout_s=2,
    )


def reached(handled: Counter[str], goal: int) -> bool:
    return len(handled) >= goal


async def publish_all(bus: NatsBus, messages: list[WeightsLoaded]) -> None:
    for message in messages:
        while True:
            try:
                await bus.publish(message)
                break
            except BusUnavailable:
                continue


async def test_every_message_is_handled_though_the_server_is_killed_twice(mortal_nats: Server) -> None:
    await mortal_nats.start()
    config = replace(config_of(mortal_nats), max_deliver=20)
    publisher, consumer = [await connect_nats(config, RUN, OPERATOR) for _ in range(2)]
    handled: Counter[str] = Counter()

    async def handle(message: Message) -> None:
        await asyncio.sleep(0)
        handled[message.event_id] += 1

    await consumer.consume("watch", [WeightsLoaded], handle, run_id=RUN, concurrency=4)
    sent = [WeightsLoaded(run_id=RUN, version=n) for n in range(300)]
    publishing = asyncio.create_task(publish_all(publisher, sent))
    for part in (100, 200):
        await until(partial(reached, handled, part))
        mortal_nats.kill()
        await mortal_nats.start()
    await publishing
    await until(lambda: len(handled) == 300, 30)
    assert set(handled) == {m.event_id for m in sent}
    assert await consumer.dead_letters() == []
    await publisher.close()
    await consumer.close()


async def test_a_publish_without_a_server_ends_in_time_and_works_again_after_it(mortal_nats: Server) -> None:
    await mortal_nats.start()
    bus = await connect_nats(config_of(mortal_nats), RUN, OPERATOR)
    mortal_nats.kill()
    started = asyncio.get_running_loop().time()
    with pytest.raises(BusUnavailable, match=r"did not publish .* in 2 s"):
        await bus.publish(WeightsLoaded(run_id=RUN, version=1))
    assert 2 <= asyncio.get_running_loop().time() - started < 3
    with pytest.raises(BusUnavailable, match="did not answer in 2 s"):
        await bus.ping()
    await mortal_nats.start()
    await bus.publish(WeightsLoaded(run_id=RUN, version=1))
    await bus.ping()
    await bus.close()
    with pytest.raises(BusUnavailable):
        await bus.publish(WeightsLoaded(run_id=RUN, version=2))


async def test_connecting_without_a_server_or_with_a_wrong_key_says_so(mortal_nats: Server, tmp_path: Path) -> None:
    config = replace(config_of(mortal_nats), timeout_s=0.5)
    with pytest.raises(BusUnavailable, match=r"\[Errno 111\]"):
        await connect_nats(config, RUN, OPERATOR)
    await mortal_nats.start()
    make_keys(other := tmp_path / "other")
    with pytest.raises(BusUnavailable, match=r"Authorization Violation.*does it know the key of the user operator"):
        await connect_nats(replace(config, keys=str(other)), RUN, OPERATOR)


async def test_streams_take_over_changed_settings(mortal_nats: Server) -> None:
    await mortal_nats.start()
    for max_bytes in (64, 32):
        config = replace(config_of(mortal_nats), max_bytes=max_bytes * 1024 * 1024)
        bus = await connect_nats(config, RUN, OPERATOR)
        await bus.publish(WeightsLoaded(run_id=RUN, version=max_bytes))
        await bus.close()


async def publish_until_refused(bus: NatsBus, published: list[str]) -> None:
    for n in count():
        message = WeightsLoaded(run_id=RUN, version=n, engine="x" * 50_000)
        await bus.publish(message)
        published.append(message.event_id)


async def test_a_full_stream_refuses_and_forgets_nothing(mortal_nats: Server) -> None:
    await mortal_nats.start()
    config = replace(config_of(mortal_nats), max_bytes=200_000, timeout_s=0.5)
    bus = await connect_nats(config, RUN, OPERATOR)
    published: list[str] = []
    with pytest.raises(BusUnavailable, match="maximum bytes exceeded"):
        await publish_until_refused(bus, published)
    kept: list[str] = []

    async def handle(message: Message) -> None:
        kept.append(message.event_id)

    await bus.consume("watch", [WeightsLoaded], handle, run_id=RUN)
    await until(lambda: len(kept) == len(published))
    assert kept == published
    await bus.close()


_DIES = """
import asyncio, os, sys
import msgspec
from services.dev.keys import make_keys
from shared.bus.nats import connect_nats
from shared.config import BusConfig
from shared.events import WeightsLoaded

async def die(message):
    os._exit(3)

async def main():
    bus = await connect_nats(msgspec.json.decode(sys.argv[1], type=BusConfig), "run-1", "operator")
    await bus.consume("watch", [WeightsLoaded], die, run_id="run-1")
    await asyncio.sleep(30)

asyncio.run(main())
"""


async def test_a_message_that_kills_its_consumer_becomes_a_dead_letter(mortal_nats: Server) -> None:
    await mortal_nats.start()
    config = config_of(mortal_nats)
    bus = await connect_nats(config, RUN, OPERATOR)
    await bus.publish(WeightsLoaded(run_id=RUN, version=1))
    for _ in range(config.max_deliver):
        victim = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _DIES, msgspec.json.encode(config).decode(), stderr=asyncio.subprocess.DEVNULL
        )
        assert await victim.wait() == 3
    called = False

    async def handle(message: Message) -> None:
        nonlocal called
        called = True

    await bus.consume("watch", [WeightsLoaded], handle, run_id=RUN)
    await until(lambda: bus.counts["dead"] == 1)
    assert not called
    [letter] = await bus.dead_letters()
    assert letter.reason == "no answer to 3 deliveries"
    await bus.close()
