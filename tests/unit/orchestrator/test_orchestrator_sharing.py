"""Runs that share a pool: their orchestrators together, with sandboxes that a twin plays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import fakeredis
import msgspec
import pytest

from services.orchestrator.dispatch import Dispatcher
from services.orchestrator.queue import Caps, Queue, Ticket
from services.orchestrator.service import OrchestratorService
from services.orchestrator.share import Share
from services.orchestrator.site import Site
from shared.bus.memory import Broker, MemoryBus
from shared.config import CapacityConfig, Config, OrchestratorConfig, RunConfig
from shared.errors import StoreUnavailable
from shared.store.shares import Part, Pool, Shares
from tests.twin_backend import Place, Play, TwinBackend
from tests.unit.orchestrator.house import MakeTask, start, until
from tests.unit.orchestrator.test_orchestrator_driving import CONTAINED, NoCalls

SIZE = 4


@dataclass
class Run:
    """One run: its orchestrator and its sandboxes."""

    service: OrchestratorService
    place: Place

    @property
    def dispatcher(self) -> Dispatcher:
        return self.service._dispatcher

    @property
    def running(self) -> int:
        return self.dispatcher._queue.running


@dataclass
class Town:
    """Runs that share one pool."""

    root: Path
    server: fakeredis.FakeServer = field(default_factory=fakeredis.FakeServer)
    broker: Broker = field(default_factory=Broker)

    @asynccontextmanager
    async def run(self, name: str, task: Path, rollouts: int, priority: float, seconds: float = 0.1) -> AsyncIterator[Run]:
        place, there = Place(lambda box: Play(f"sleep {seconds}")), asyncio.Event()
        there.set()
        capacity = CapacityConfig(pool="machine", size=SIZE)
        config = Config(
            run=RunConfig(id=name, root=str(self.root)),
            orchestrator=OrchestratorConfig(concurrency=50, priority=priority, capacity=capacity),
        )  # fmt: skip
        shares = Shares(fakeredis.FakeAsyncRedis(server=self.server), "machine", lease_s=30, settle_s=0)
        site = Site(TwinBackend(place), lambda session: (CONTAINED, Path("/")))
        service = OrchestratorService(config, MemoryBus(self.broker), site, NoCalls(there), shares=shares)
        await service.start()
        for n in range(rollouts):
            command = msgspec.structs.replace(start(task, f"{name}-{n}"), run_id=name)
            await MemoryBus(self.broker).publish(command)
        try:
            yield Run(service, place)
        finally:
            await service.stop()
            await place.close()


@pytest.fixture
def town(tmp_path: Path) -> Town:
    return Town(tmp_path / "runs")


async def test_two_runs_never_have_more_sandboxes_than_their_pool_and_divide_it_by_priority(
    town: Town, make_task: MakeTask
) -> None:
    task, seen = make_task(), []
    async with town.run("big", task, 45, 3.0) as big, town.run("small", task, 30, 1.0) as small:
        await until(lambda: small.running, "the small run's first place")
        for _ in range(60):
            seen.append((big.running, small.running))
            await asyncio.sleep(0.01)
        assert big.dispatcher.jobs
        assert small.dispatcher.jobs
    assert max(a + b for a, b in seen) <= SIZE
    shares = [sum(column) for column in zip(*seen, strict=True)]
    assert 1.5 < shares[0] / shares[1] < 6


async def test_a_run_alone_has_the_whole_pool_and_a_later_one_gets_its_share(town: Town, make_task: MakeTask) -> None:
    task = make_task()
    async with town.run("first", task, 60, 1.0, seconds=2.0) as first:
        await until(lambda: first.running == SIZE, "all places")
        async with town.run("second", task, 3, 1.0) as second:
            await until(lambda: second.running, "a place of the second")
            await until(lambda: not second.dispatcher.jobs, "the end of the second")
        await until(lambda: first.running == SIZE, "all places again")


def queue_of(waiting: int) -> Queue:
    queue = Queue(Caps(50))
    for n in range(waiting):
        queue.add(Ticket(0, n, f"r{n}", "task"))
    return queue


def share_of(server: fakeredis.FakeServer, run: str, queue: Queue, lease_s: float = 30) -> Share:
    shares = Shares(fakeredis.FakeAsyncRedis(server=server), "machine", lease_s=lease_s, settle_s=0)
    return Share(shares, run, 1.0, SIZE, queue, lambda: None)


async def test_places_of_an_orchestrator_that_is_not_heard_of_come_back() -> None:
    server, mine, dead = fakeredis.FakeServer(), queue_of(9), queue_of(9)
    await share_of(server, "dead", dead, lease_s=0.2).sync()
    share = share_of(server, "alive", mine)
    await share.sync()
    assert mine.next() is None
    await asyncio.sleep(0.3)
    await share.sync()
    assert len([t for t in iter(mine.next, None)]) == SIZE


async def test_one_that_stops_gives_its_places_back_at_once_unless_sandboxes_go_on() -> None:
    server, mine, other = fakeredis.FakeServer(), queue_of(9), queue_of(9)
    leaving, share = share_of(server, "leaving", other), share_of(server, "staying", mine)
    await leaving.sync()
    await leaving.stop(leave=False)
    await share.sync()
    assert mine.next() is None
    await share_of(server, "leaving", other).stop(leave=True)
    await share.sync()
    assert mine.next()


class Away:
    """A pool whose server comes and goes."""

    lease_s = 0.3

    def __init__(self) -> None:
        self.there = True

    async def look(self) -> Pool:
        if not self.there:
            raise StoreUnavailable("away")
        return Pool("1", False, {})

    async def put(self, version: str, run: str, part: Part) -> bool:
        return True


async def test_while_the_server_is_away_a_run_keeps_what_it_was_given_until_its_lease_is_over() -> None:
    pool, queue = Away(), queue_of(9)
    share = Share(pool, "run", 1.0, SIZE, queue, lambda: None)  # type: ignore[arg-type]
    await share.sync()
    first = queue.next()
    assert first
    pool.there = False
    with pytest.raises(StoreUnavailable):
        await share.sync()
    assert len([first, *iter(queue.next, None)]) == SIZE
    queue.release(first.name)
    await asyncio.sleep(pool.lease_s)
    with pytest.raises(StoreUnavailable):
        await share.sync()
    assert queue.next() is None, "others have it by now"


async def test_a_place_whose_rollout_ended_goes_back_to_the_pool() -> None:
    server, mine, other = fakeredis.FakeServer(), queue_of(9), queue_of(9)
    share, late = share_of(server, "first", mine), share_of(server, "late", other)
    await share.sync()
    running = list(iter(mine.next, None))
    await late.sync()
    assert other.next() is None
    mine.release(running[0].name)
    assert mine.next() is None
    await share.sync()
    assert mine.next() is None, "it is the other's turn"
    await late.sync()
    assert other.next()


def test_what_a_queue_wants_is_what_its_caps_would_let_run() -> None:
    queue = Queue(Caps(5, task=2))
    for n in range(9):
        queue.add(Ticket(0, n, f"r{n}", "ab"[n % 2]))
    assert queue.want == 4
    assert queue.next()
    assert (queue.running, queue.want) == (1, 4)
    queue.limit(1)
    assert queue.next() is None
    queue.limit(2)
    second = queue.next()
    assert second
    queue.release(second.name)
    assert queue.next() is None
