"""The collector: takes messages from the bus, and sees to what nobody sends one for.

Its state is in the store, so that any number of collectors share the work; what a wiped store lost is rebuilt from the bus.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from services.collector.archiver import Archiver, open_archive
from services.collector.handling import ROLLOUTS, Handling
from services.collector.rebuild import Rebuild
from shared.bus import Bus
from shared.config import Config
from shared.errors import ForgeError, StoreWiped
from shared.events import (
    CallRecorded,
    Message,
    RolloutStarted,
    RunEvaluated,
    RunFinished,
    RunStaged,
    RunStepped,
    TaskAccepted,
    TaskBuilt,
    TaskProposed,
    TaskRefined,
    TaskRejected,
    TaskTried,
    TrajectoryAssembled,
    WeightsFailed,
    WeightsLoaded,
    WeightsPublished,
)
from shared.store.assembly import Assembly
from shared.store.blobs import Blobs
from shared.tally import TELL_S
from shared.watch.meters import Meters
from shared.watch.watch import Watch

log = logging.getLogger(__name__)

CALLS_AT_ONCE, ENDS_AT_ONCE = 32, 8
"""Calls, and other messages, that one collector handles at once: keeping a call is mostly waiting for the store."""
RELAY_S = 0.5
"""How often the store is looked at: whether it was wiped, and for what other collectors left in the outbox; one's own is
published at once."""
SWEEP_S = 2.0
"""How often overdue groups are looked for, at least."""
TRIM_S = 5.0
"""How often the bus is asked to make room; it does where three quarters of it are used."""
DRAIN_S = 5.0
"""Longest that an orderly end waits for what is still on the bus, beyond `bus.ack_wait_s`: after that long comes again what a
collector that was killed had been sent."""
_DRAIN_PAUSE_S = 0.05
_CALLS = (CallRecorded,)
_NEWS = (
    RunStaged, RunStepped, RunEvaluated, RunFinished, RolloutStarted, TrajectoryAssembled, WeightsPublished, WeightsLoaded,
    WeightsFailed, TaskProposed, TaskRejected, TaskBuilt, TaskTried, TaskRefined, TaskAccepted,
)  # fmt: skip
"""Events that no service acts on; one has to find what is published in their place."""


class CollectorService:
    """One of any number of collectors of a run; they share the work. The archive goes to the run folder, where one is given;
    how much there is to do is told where there is a `watch`."""

    def __init__(
        self, config: Config, bus: Bus, assembly: Assembly, blobs: Blobs, folder: Path | None = None,
        watch: Watch | None = None,
    ) -> None:  # fmt: skip
        self._config = config
        self._bus = bus
        self._assembly = assembly
        self._handling = Handling(config.collector, bus, assembly, blobs)
        self._rebuild = Rebuild(config, bus, assembly, blobs)
        self._archiver: Archiver | None = open_archive(config, bus, blobs, folder) if folder else None
        if watch:
            watch.sources.append(partial(self._look, watch.meters))
        self._stopping = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def repeats(self) -> Counter[str]:
        """What came that was there already (see `Handling.tally`)."""
        return self._handling.tally.counts

    async def start(self) -> None:
        """Begins to work; returns when the subscriptions stand.

        Raises:
            StoreUnavailable, BusUnavailable: the store's state could not be looked at, or not be rebuilt.
        """
        if self._archiver is not None:
            await self._archiver.start()
        await self._rebuild.ensure()
        closing, sweep_s = self._handling.closing, min(SWEEP_S, self._config.collector.deadline_s / 4)
        self._tasks = [
            asyncio.create_task(self._repeat("the outbox relay", self._relay, RELAY_S, closing.filled)),
            asyncio.create_task(self._repeat("the deadline sweep", closing.close_overdue, sweep_s, self._stopping)),
            asyncio.create_task(self._repeat("the making of room", self._bus.trim, TRIM_S, self._stopping)),
            asyncio.create_task(self._repeat("the counting", self._tell, TELL_S, self._stopping)),
        ]
        run = self._config.run.id
        await self._bus.consume("collector-calls", _CALLS, self._on_message, run_id=run, concurrency=CALLS_AT_ONCE)
        await self._bus.consume("collector-rollouts", ROLLOUTS, self._on_message, run_id=run, concurrency=ENDS_AT_ONCE)
        await self._bus.consume("collector-others", _NEWS, _look, run_id=run)
        await self._bus.keep_strays()

    async def stop(self) -> None:
        """Ends once all that was published is archived; the handling of messages ends with the bus."""
        if self._archiver is not None:
            await self._drain(self._archiver)
        self._stopping.set()
        self._handling.closing.filled.set()
        await asyncio.gather(*self._tasks)
        if self._archiver is not None:
            await self._archiver.stop()
        await self._tell()

    async def _look(self, meters: Meters) -> None:
        """Reads what is open, what waits on the bus, and the size of the archive."""
        groups, outbox = await self._assembly.depths()
        meters.set("groups_open", groups)
        meters.set("outbox", outbox)
        if self._archiver is not None:
            meters.set("archive_bytes", self._archiver.size)
        load = await self._bus.load()
        meters.replace("consumer_lag", {(lag.consumer, lag.stream): lag.messages for lag in load.lags})
        meters.replace("stream_messages", {(name,): messages for name, (messages, _) in load.streams.items()})
        meters.replace("stream_bytes", {(name,): size for name, (_, size) in load.streams.items()})

    async def _drain(self, archiver: Archiver) -> None:
        """Returns when nothing is left to do: the other services have ended by now, and publish no more."""
        longest_s = self._config.bus.ack_wait_s + DRAIN_S
        try:
            async with asyncio.timeout(longest_s):
                while await self._left(archiver):  # noqa: ASYNC110 - other processes are at it as well
                    await asyncio.sleep(_DRAIN_PAUSE_S)
        except (TimeoutError, ForgeError) as e:
            log.warning("the archive lacks the end of what was published: %s", str(e) or f"it took over {longest_s:g} s")

    async def _left(self, archiver: Archiver) -> int:
        """Messages and groups that somebody is still busy with. What settles an attempt may fill the outbox, and that the
        archive: hence in this order."""
        run = self._config.run.id
        return (
            await self._bus.backlog("collector-calls", _CALLS, run_id=run)
            or await self._bus.backlog("collector-rollouts", ROLLOUTS, run_id=run)
            or len(await self._assembly.outbox())
            or await archiver.backlog()
        )

    async def _repeat(self, name: str, step: Callable[[], Awaitable[None]], pause_s: float, hurry: asyncio.Event) -> None:
        """Does a step every `pause_s` seconds, and whenever `hurry` is set. A failed step is logged, and done again."""
        while not self._stopping.is_set():
            try:
                await self._on_whole_state(step)
            except ForgeError as e:
                log.warning("%s: %s", name, e)
            except Exception:
                log.exception("%s failed", name)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await hurry.wait()

    async def _relay(self) -> None:
        await self._assembly.epoch.check()
        await self._handling.closing.relay()

    async def _tell(self) -> None:
        self._handling.tally.tell()

    async def _on_message(self, message: Message) -> None:
        await self._on_whole_state(partial(self._handling.handle, message))

    async def _on_whole_state(self, step: Callable[[], Awaitable[None]]) -> None:
        """Does a step; if the store turns out to be wiped, it is rebuilt and the step done again."""
        while True:
            try:
                return await step()
            except StoreWiped:
                await self._rebuild.ensure()


async def _look(message: Message) -> None:
    """That it could be read is all that is asked of it."""
