"""A collector process between a real NATS and a real store, a run of its own for every measurement."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec
import nats as nats_client
from nats.js.client import JetStreamContext
from nats.js.errors import NotFoundError

from services.app import ready_file, run_folder
from services.collector.archiver import DURABLE
from shared.bus.nats import NatsBus, connect_nats
from shared.bus.streams import CALLS
from shared.config import BusConfig, CollectorConfig, Config, RunConfig, StoreConfig
from shared.events import CallRecorded, Message, TrajectoryAssembled
from shared.ids import new_run_id
from shared.keys import OPERATOR
from shared.store.connect import Client, connect
from shared.subjects import pattern_of
from tests.bench.processes import Child, cpu_s
from tests.bench.rollouts import finished, sealed
from tests.embedded import Server, nats, valkey
from tests.waiting import until

_PUBLISHERS = 32
_WARM = 0.1
"""Share of the calls that is not timed: the collector has just started."""
_PATIENCE_S = 300.0
_POLL_S = 0.02
_LONGEST_ROW = 1_000_000


@dataclass(frozen=True, slots=True)
class Collectors:
    """Servers that are up, and connections to them."""

    folder: Path
    broker: Server
    store: Server
    bus: NatsBus
    js: JetStreamContext
    client: Client

    @classmethod
    async def start(cls, folder: Path, stack: AsyncExitStack) -> Collectors:
        """Starts the servers; they end with the stack."""
        broker, store = nats(folder / "nats"), valkey(folder / "valkey")
        for server in (broker, store):
            stack.callback(server.kill)
            await server.start()
        bus = await connect_nats(BusConfig(url=broker.address.url, keys=broker.address.keys), "*", OPERATOR)
        stack.push_async_callback(bus.close)
        watcher = await nats_client.connect(broker.address.url, nkeys_seed=broker.address.seed)
        stack.push_async_callback(watcher.close)
        client = connect(store.address.url, store.address.login)
        stack.push_async_callback(client.aclose)
        return cls(folder, broker, store, bus, watcher.jetstream(), client)

    def new_run(self, *, archive: bool = False) -> Run:
        """A run whose collector is not started yet, and with or without an archive."""
        config = Config(
            run=RunConfig(id=new_run_id(), root=str(self.folder)),
            bus=BusConfig(url=self.broker.address.url, keys=self.broker.address.keys),
            store=StoreConfig(url=self.store.address.url, keys=self.store.address.keys),
            collector=CollectorConfig(max_row_tokens=_LONGEST_ROW, archive=archive),
        )
        return Run(self, config)


class Drained(NamedTuple):
    """How fast calls were kept: in a second, and CPU ms that the collector used for each."""

    calls_per_s: float
    cpu_ms: float


class Run:
    """One measurement."""

    def __init__(self, world: Collectors, config: Config) -> None:
        self.id = config.run.id
        self._world = world
        self._config = config

    async def publish(self, records: Iterable[Message]) -> None:
        """Puts records into the stream."""
        waiting = iter(records)

        async def publisher() -> None:
            for record in waiting:
                await self._world.bus.publish(record)

        await asyncio.gather(*(publisher() for _ in range(_PUBLISHERS)))

    async def drain(self, calls: int) -> Drained:
        """Starts a collector on so many waiting calls."""
        async with self._collector() as pid:
            began, before = await self._until_kept(round(_WARM * calls))
            used = cpu_s(pid)
            ended, after = await self._until_kept(calls)
            used = cpu_s(pid) - used
        return Drained((after - before) / (ended - began), used / (after - before) * 1e3)

    async def assemble_ms(self, records: list[CallRecorded]) -> float:
        """Milliseconds from the outcome of a rollout to its trajectory, all of its calls being there."""
        async with self._collector():
            await self.publish(records)
            await self._world.bus.publish(sealed(self.id, 0, len(records)))
            await self._until_kept(len(records))
            pattern = pattern_of(TrajectoryAssembled, self.id)
            async with aclosing(self._world.bus.tap(pattern)) as taps:  # type: ignore[type-var]
                first = asyncio.ensure_future(anext(taps))
                await self._world.bus.ping()  # the tap stands
                began = time.perf_counter()
                await self._world.bus.publish(finished(self.id, 0))
                async with asyncio.timeout(_PATIENCE_S):
                    await first
                return (time.perf_counter() - began) * 1e3

    async def memory(self) -> int:
        """Bytes that the store uses."""
        return int((await self._world.client.info("memory"))["used_memory"])

    async def forget(self) -> None:
        """Makes room: neither the stream nor the store keeps anything of this run, or of any before."""
        await self._world.js.purge_stream(CALLS.name)
        await self._world.client.execute_command("FLUSHALL", "SYNC")  # type: ignore[no-untyped-call] # else it shrinks later

    @asynccontextmanager
    async def _collector(self) -> AsyncIterator[int]:
        folder = run_folder(self._config)
        folder.mkdir()
        file = folder / "config.json"
        file.write_bytes(msgspec.json.encode(self._config))
        command = [sys.executable, "-m", "services.cli", "serve", "collector", "--config", str(file)]
        with Child(command, folder / "collector.log", {}) as collector:
            await until(ready_file(self._config, "collector").exists, _PATIENCE_S)
            yield collector.pid

    async def _until_kept(self, calls: int) -> tuple[float, int]:
        """Waits until the collector has kept so many calls; returns when that was (seconds), and how many they were. One
        that is to be archived, too, is half kept by each."""
        async with asyncio.timeout(_PATIENCE_S):
            while (kept := await self._kept()) < calls:  # noqa: ASYNC110 - another process does it
                await asyncio.sleep(_POLL_S)
        return time.perf_counter(), kept

    async def _kept(self) -> int:
        consumers = ["collector-calls", *([DURABLE] if self._config.collector.archive else [])]
        return sum([await self._kept_by(name) for name in consumers]) // len(consumers)

    async def _kept_by(self, consumer: str) -> int:
        try:
            info = await self._world.js.consumer_info(CALLS.name, f"{consumer}-{self.id}")
        except NotFoundError:
            return 0
        delivered = info.delivered.consumer_seq if info.delivered else 0
        return delivered - (info.num_ack_pending or 0)
