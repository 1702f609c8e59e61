"""A collector that archives: nothing is acknowledged before it is on the disk."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import fakeredis
import pytest

from services.collector.archive import FOLDER, MEDIA
from services.collector.archive_reader import Damage, read
from services.collector.service import CollectorService
from shared.bus.memory import Broker, MemoryBus
from shared.config import CollectorConfig, Config, RunConfig
from shared.events import GroupCompleted, Media, Message, RunEvaluated, RunFinished, decode
from shared.store.assembly import Assembly
from shared.store.blobs import Blobs
from tests.unit.collector.rollouts import RUN, Session
from tests.unit.collector.worlds import Store, story
from tests.waiting import until


@pytest.fixture(autouse=True, scope="module")
def impatience() -> Iterator[None]:
    """A write that failed is tried again soon."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("services.collector.archiver.RETRY_S", 0.01)
        yield


@asynccontextmanager
async def collector(
    folder: Path, broker: Broker, server: fakeredis.FakeServer | None = None, **settings: Any
) -> AsyncIterator[MemoryBus]:
    """A collector with its bus, ended in order."""
    bus, store = MemoryBus(broker, retry_s=0.001), Store(server=server or fakeredis.FakeServer())
    config = Config(run=RunConfig(id=RUN), collector=CollectorConfig(**settings))
    service = CollectorService(config, bus, Assembly(store, RUN), Blobs(store, RUN), folder)
    await service.start()
    yield bus
    await service.stop()
    await bus.close()


def archived(folder: Path) -> list[Message]:
    damage = Damage()
    messages = list(read(folder / FOLDER, damage))
    assert damage == Damage()
    return messages


async def test_an_orderly_end_leaves_everything_in_the_archive(tmp_path: Path) -> None:
    broker = Broker()
    async with collector(tmp_path, broker) as bus:
        for message in [m for i in range(4) for m in story(f"r{i}", i % 2)]:
            await bus.publish(message)
        await bus.publish(RunFinished(run_id=RUN, ok=True))
    published = {m.event_id: m for d in broker.kept if (m := decode(d.data))}
    assert {m.event_id: m for m in archived(tmp_path)} == published
    assert any(isinstance(m, GroupCompleted) for m in published.values())


async def test_a_group_by_reference_is_archived_with_its_trajectories(tmp_path: Path) -> None:
    broker = Broker()
    async with collector(tmp_path, broker, inline_bytes=100) as bus:
        for message in [m for i in range(4) for m in story(f"r{i}", i % 2)]:
            await bus.publish(message)
    [told] = [m for d in broker.kept if isinstance(m := decode(d.data), GroupCompleted)]
    [kept] = [m for m in archived(tmp_path) if isinstance(m, GroupCompleted)]
    assert (told.ref, told.trajectories) == (kept.ref, [])
    assert [t.rollout_id for t in kept.trajectories] == ["r0", "r1", "r2", "r3"]


async def test_nothing_is_acknowledged_while_it_cannot_be_written(tmp_path: Path) -> None:
    broker = Broker()
    async with collector(tmp_path, broker) as bus:
        shutil.rmtree(tmp_path / FOLDER)
        message = RunEvaluated(run_id=RUN, label="before", success=0.5, episodes=2, version=0)
        await bus.publish(message)
        await until(lambda: bus.counts["handled"] == 1)  # by the one that only looks
        assert await bus.backlog("archive", [RunEvaluated], run_id=RUN) == 1
        (tmp_path / FOLDER).mkdir()
        await until(lambda: bus.counts["handled"] == 2)
    assert archived(tmp_path) == [message]
    assert broker.dead == []


async def test_images_are_archived_before_their_call(tmp_path: Path) -> None:
    broker, there, gone = Broker(), hashlib.sha256(b"image").hexdigest(), "0" * 64
    server = fakeredis.FakeServer()
    await Blobs(Store(server=server), RUN).put(b"image")
    async with collector(tmp_path, broker, server) as bus:
        made = Session("r0")
        made.call([1], [2], media=[Media(sha256=there), Media(sha256=gone)])
        await bus.publish(made.records[0])
        await until(lambda: any((tmp_path / FOLDER).glob("*.gz")))
        assert (tmp_path / FOLDER / MEDIA / there).read_bytes() == b"image"
    assert archived(tmp_path) == made.records
    assert [f.name for f in (tmp_path / FOLDER / MEDIA).iterdir()] == [there]


async def test_a_run_may_want_no_archive(tmp_path: Path) -> None:
    async with collector(tmp_path, Broker(), archive=False) as bus:
        await bus.publish(RunFinished(run_id=RUN, ok=True))
    assert not (tmp_path / FOLDER).exists()
