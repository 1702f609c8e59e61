"""A bounded stream of a real server: what is not archived stays, and a full stream refuses."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from services.collector.archive import FOLDER, Segments
from services.collector.archive_reader import Damage, read
from services.collector.archiver import DURABLE, KINDS, Archiver
from shared.bus.nats import NatsBus, connect_nats
from shared.config import BusConfig
from shared.errors import BusUnavailable
from shared.events import CallRecorded
from shared.keys import OPERATOR
from shared.store.blobs import Blobs
from tests.contract.bus_kit import call
from tests.embedded import MAX_PAYLOAD, Server
from tests.unit.collector.worlds import Store
from tests.waiting import eventually

RUN = "run-1"
BODY = 20_000


def big(seq: int) -> CallRecorded:
    return replace(call(RUN, seq), prompt_delta=bytes(BODY))


async def connect(server: Server) -> NatsBus:
    config = BusConfig(
        url=server.address.url,
        keys=server.address.keys,
        max_payload=MAX_PAYLOAD,
        max_bytes=40 * BODY,
        ack_wait_s=2.0,
        timeout_s=0.5,
        max_deliver=20,
    )
    return await connect_nats(config, RUN, OPERATOR)


async def publish_until_full(bus: NatsBus, seq: int) -> int:
    """Publishes calls from a number on; the number of the first that was refused."""
    while True:
        try:
            await bus.publish(big(seq))
        except BusUnavailable:
            return seq
        seq += 1


async def test_a_full_stream_refuses_until_what_was_archived_makes_room(mortal_nats: Server, tmp_path: Path) -> None:
    await mortal_nats.start()
    bus = await connect(mortal_nats)
    idle = asyncio.Event()

    async def wait(message: object) -> None:
        await idle.wait()

    await bus.consume(DURABLE, KINDS, wait, run_id=RUN)  # an archive that has stopped to write
    refused = await publish_until_full(bus, 1)
    assert 10 < refused < 40
    await bus.trim()
    with pytest.raises(BusUnavailable, match="maximum bytes exceeded"):
        await bus.publish(big(refused))
    await bus.close()

    bus = await connect(mortal_nats)
    archiver = Archiver(RUN, bus, Blobs(Store(), RUN), Segments(tmp_path / FOLDER))
    await archiver.start()

    async def archived() -> bool:
        return await archiver.backlog() == 0

    await eventually(archived)
    await bus.trim()
    last = await publish_until_full(bus, refused)
    assert last > refused + 5
    await eventually(archived)
    await bus.close()
    await archiver.stop()
    damage = Damage()
    numbers = [m.seq for m in read(tmp_path / FOLDER, damage) if isinstance(m, CallRecorded)]
    assert sorted(numbers) == list(range(1, last))
    assert damage == Damage()


async def test_a_backlog_is_what_is_not_acknowledged(mortal_nats: Server) -> None:
    await mortal_nats.start()
    bus, gate = await connect(mortal_nats), asyncio.Event()

    async def wait(message: object) -> None:
        await gate.wait()

    await bus.consume("slow", [CallRecorded], wait, run_id=RUN)
    assert await bus.backlog("slow", [CallRecorded], run_id=RUN) == 0
    for seq in (1, 2, 3):
        await bus.publish(call(RUN, seq))
    assert await bus.backlog("slow", [CallRecorded], run_id=RUN) == 3
    gate.set()

    async def done() -> bool:
        return await bus.backlog("slow", [CallRecorded], run_id=RUN) == 0

    await eventually(done)
    await bus.close()
