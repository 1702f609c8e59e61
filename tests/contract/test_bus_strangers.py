"""What a client that keeps to no rules can publish makes nobody deaf."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from shared.bus.nkey import nkey_of
from shared.events import Message, RolloutFailed
from shared.subjects import pattern_of, tap_pattern
from tests.contract.bus_kit import AnyBus, Log, failed
from tests.embedded import Address
from tests.waiting import until

pytestmark = pytest.mark.parametrize("bus_address", ["embedded", "container"], indirect=True)


async def send(address: Address, command: bytes) -> None:
    """Sends a command of NATS's protocol as it is; returns when the server has taken it."""
    host, port = address.url.removeprefix("nats://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    nonce = json.loads((await reader.readline()).removeprefix(b"INFO "))["nonce"]
    nkey = nkey_of(Path(address.seed).read_text().strip(), address.seed)
    hello = {"nkey": nkey.public, "sig": nkey.sign(nonce), "headers": True, "verbose": False}
    writer.write(b"CONNECT %b\r\n" % json.dumps(hello).encode())
    writer.write(command + b"PING\r\n")
    while await asyncio.wait_for(reader.readline(), 10) != b"PONG\r\n":
        pass
    writer.close()
    await writer.wait_closed()


def headed(subject: str, headers: bytes, body: bytes) -> bytes:
    return b"HPUB %s %d %d\r\n%s%s\r\n" % (subject.encode(), len(headers), len(headers + body), headers, body)


async def watch(bus: AnyBus, run_id: str, seen: list[Message | None]) -> None:
    async for tapped in bus.tap(tap_pattern("", run_id)):
        seen.append(tapped.message)


async def check(bus: AnyBus, run_id: str, address: Address, command: bytes) -> None:
    """What is sent becomes a dead letter; consumer, tap and publishing go on."""
    log, seen, good = Log(), [], failed(run_id, 1)  # type: ignore[var-annotated]
    tap = asyncio.create_task(watch(bus, run_id, seen))
    await bus.consume("watch", [RolloutFailed], log, run_id=run_id)
    await send(address, command)
    await until(lambda: bus.counts["dead"] == 1)
    await bus.publish(good)
    await until(lambda: log.got == [good] and seen[-1:] == [good])
    assert len(await bus.dead_letters()) == 1
    tap.cancel()
    await asyncio.gather(tap, return_exceptions=True)


@pytest.mark.parametrize("odd", [b"\xff\xfe", b"\x0b", b"a\x0cb", b"\0", b"\x1b[2J\x85", b"'\"\\$"], ids=ascii)
async def test_a_subject_that_is_no_text_or_has_characters_that_control_something(
    bus: AnyBus, run_id: str, bus_address: Address, odd: bytes
) -> None:
    subject = pattern_of(RolloutFailed, run_id, "k").encode() + odd
    await check(bus, run_id, bus_address, b"PUB %s 2\r\n{}\r\n" % subject)


@pytest.mark.parametrize(
    "headers",
    [
        b"abc\r\n", b"NATS/1.0", b"NATS/1.0\r\nfoo", b"NATS/1.0\r\n\xff\xfe: \x00\r\n\r\n",
        b"NATS/1.0 404 No Messages\r\n\r\n", b"NATS/1.0 100 Idle Heartbeat\r\n\r\n", b"NATS/1.0 409 Consumer Deleted\r\n\r\n",
    ],
)  # fmt: skip
async def test_headers_that_are_none_or_look_like_the_servers_own(
    bus: AnyBus, run_id: str, bus_address: Address, headers: bytes
) -> None:
    await check(bus, run_id, bus_address, headed(pattern_of(RolloutFailed, run_id, "k"), headers, b""))
