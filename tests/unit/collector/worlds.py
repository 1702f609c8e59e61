"""Collectors at work in one process: the bus's twin, the store's twin, and any number of services over them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import fakeredis
import redis.exceptions

from services.collector.service import CollectorService
from shared.bus.memory import Broker, MemoryBus
from shared.config import CollectorConfig, Config, RunConfig
from shared.events import (
    GroupCompleted,
    GroupDiscarded,
    Message,
    RolloutFailed,
    RolloutFinished,
    RolloutScheduled,
    TrajectoryAssembled,
    TrajectoryDiscarded,
    decode,
    encode,
)
from shared.store.assembly import Assembly
from shared.store.blobs import Blobs
from shared.store.connect import Keys
from shared.store.epoch import READY
from shared.subjects import subject_of
from tests.unit.collector.rollouts import GROUP, RUN, Session, changed, ended


class Store(fakeredis.FakeAsyncRedis):
    """The store's twin. Its connection breaks once, after the operation number `breaks_after` of a collector at work."""

    breaks_after = -1
    operations = 0

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        reply = await super().execute_command(*args, **options)  # type: ignore[no-untyped-call]
        self.operations += 1
        if self.operations == self.breaks_after:
            raise redis.exceptions.ConnectionError("the connection broke")
        return reply


@dataclass
class Worker:
    """One collector with connections of its own."""

    service: CollectorService
    bus: MemoryBus
    store: Store

    async def kill(self) -> None:
        """Ends it wherever it is; the bus delivers again what it had not acknowledged."""
        await self.bus.close()
        await self.service.stop()


@dataclass
class World:
    """What collectors share, and what they published."""

    config: CollectorConfig
    broker: Broker = field(default_factory=Broker)
    server: fakeredis.FakeServer = field(default_factory=fakeredis.FakeServer)
    workers: list[Worker] = field(default_factory=list)

    async def start(self, breaks_after: int = -1, bus: type[MemoryBus] = MemoryBus) -> Worker:
        """Starts one more collector."""
        store = Store(server=self.server)
        worker_bus = bus(self.broker, retry_s=0.001)
        config = Config(run=RunConfig(id=RUN), collector=self.config)
        service = CollectorService(config, worker_bus, Assembly(store, RUN), Blobs(store, RUN))
        self.workers.append(Worker(service, worker_bus, store))
        await service.start()
        store.operations, store.breaks_after = 0, breaks_after
        return self.workers[-1]

    async def publish(self, *messages: Message) -> None:
        """Has messages delivered, again if they were before."""
        bus = MemoryBus(self.broker)
        for i, message in enumerate(messages):
            await bus.publish_raw(subject_of(message), encode(message), f"{len(self.broker.kept)}-{i}")

    def published(self, *kinds: type[Message]) -> list[Message]:
        """Messages of some types that the bus has kept."""
        return [m for d in self.broker.kept if isinstance(m := decode(d.data), kinds)]

    @property
    def restored(self) -> bool:
        """Whether the store holds the run's state."""
        return bool(fakeredis.FakeStrictRedis(server=self.server).get(Keys(RUN)("epoch")) == READY.encode())

    @property
    def groups(self) -> list[GroupCompleted | GroupDiscarded]:
        return [m for m in self.published(GroupCompleted, GroupDiscarded) if isinstance(m, GroupCompleted | GroupDiscarded)]

    @property
    def trajectories(self) -> list[Message]:
        return self.published(TrajectoryAssembled, TrajectoryDiscarded)

    async def until(self, condition: Callable[[], object]) -> None:
        """Returns once a condition holds."""
        async with asyncio.timeout(10):
            while not condition():  # noqa: ASYNC110 - conditions on others' state
                await asyncio.sleep(0.001)

    async def until_quiet(self) -> None:
        """Returns once every message was handled and the outbox is empty."""
        assembly = Assembly(Store(server=self.server), RUN)
        wanted = sum(".group." not in d.subject and ".trajectory." not in d.subject for d in self.broker.kept)
        await self.until(lambda: sum(w.bus.counts["handled"] + w.bus.counts["dead"] for w in self.workers) >= wanted)
        async with asyncio.timeout(10):
            while await assembly.outbox():  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.001)


@asynccontextmanager
async def world(workers: int = 1, *, breaks_after: int = -1, **config: Any) -> AsyncIterator[World]:
    """A world with collectors at work; the connection of each to the store breaks once, after so many operations."""
    made = World(CollectorConfig(**config))
    for _ in range(workers):
        await made.start(breaks_after)
    try:
        yield made
    finally:
        for worker in made.workers:
            await worker.kill()


def session(rollout: str, attempt: int = 1) -> Session:
    """A session of two calls, three sampled tokens."""
    made = Session(rollout, attempt)
    made.call([1, 2], [3])
    made.call([1, 2, 3, 4], [5, 6])
    return made


def story(rollout: str, reward: float, attempt: int = 1, group_id: str = GROUP, **more: Any) -> list[Message]:
    """All messages about an attempt that ended well."""
    made, more = session(rollout, attempt), {"group_id": group_id, **more}
    parts = [changed(record, group_id=group_id) for record in made.records], changed(made.sealed(), group_id=group_id)
    return [scheduled(rollout, attempt, **more), *parts[0], parts[1], finished(rollout, reward, attempt, **more)]


def scheduled(rollout: str, attempt: int = 1, **more: Any) -> RolloutScheduled:
    return RolloutScheduled(**ended(rollout, attempt, **more))


def finished(rollout: str, reward: float, attempt: int = 1, **more: Any) -> RolloutFinished:
    return RolloutFinished(**ended(rollout, attempt, **more), reward=reward)


def failed(rollout: str, attempt: int = 1, **more: Any) -> RolloutFailed:
    return RolloutFailed(**ended(rollout, attempt, **{"reason": "SandboxError", **more}))
