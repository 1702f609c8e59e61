"""Rebuilds the run's state in a store that lost it, from the events on the bus and through the handlers that made it.

All that was ever acknowledged is on the bus, so that nothing is lost. Groups whose message is on the bus count as closed, and
none is published twice. Meanwhile whatever would write to the store waits (see `shared.store.epoch`).
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager, suppress

from services.collector.handling import ROLLOUTS, Handling
from shared.bus import Bus
from shared.config import Config
from shared.errors import ForgeError, Rejected, StoreWiped
from shared.events import CallRecorded, GroupCompleted, GroupDiscarded, Message, RolloutMessage, RolloutScheduled
from shared.store.assembly import Assembly
from shared.store.blobs import Blobs
from shared.store.epoch import READY

log = logging.getLogger(__name__)

POLL_S = 0.1
"""How often a collector looks whether another one is done with rebuilding."""


class Rebuild:
    """One collector's part in it: whoever comes first rebuilds, the others wait."""

    def __init__(self, config: Config, bus: Bus, assembly: Assembly, blobs: Blobs) -> None:
        self._config = config
        self._run = config.run.id
        self._bus = bus
        self._epoch = assembly.epoch
        self._blobs = blobs
        self._token = f"rebuilt-by-{secrets.token_hex(8)}"
        self._assembly = assembly.rebuilt_by(self._token)
        self._handling = Handling(config.collector, bus, self._assembly, blobs)
        self._one_at_a_time = asyncio.Lock()

    async def ensure(self) -> None:
        """Returns once the store holds the run's state; at once if it does already.

        Raises:
            StoreUnavailable, BusUnavailable: to be tried again.
        """
        async with self._one_at_a_time:
            while (holder := await self._epoch.claim(self._token)) != READY:
                if holder != self._token:
                    await asyncio.sleep(POLL_S)
                    continue
                with suppress(StoreWiped):  # once more: it begins anew
                    await self._rebuild()

    async def _rebuild(self) -> None:
        began = time.perf_counter()
        async with self._held():
            found = self._bus.replay(RolloutScheduled, self._run, "*", 0)
            starts = [m async for _, m in found if isinstance(m, RolloutScheduled)]
            closed = await self._closed(starts)
            await self._assembly.note_closed(sorted(closed))
            done = {m.rollout_id for m in starts if m.group_id in closed}
            messages = await self._replay(await self._bus.keys(CallRecorded, self._run) - done, closed)
        await self._epoch.finish(self._token)
        took = time.perf_counter() - began
        log.info("the store holds the run's state: %d closed groups, %d messages, %.1f s", len(closed), messages, took)

    async def _replay(self, rollouts: Collection[str], closed: Collection[str]) -> int:
        """Handles all messages about groups that are not closed, those that end attempts last; gives their number."""
        handled = 0
        for rollout in sorted(rollouts):
            async for _, call in self._bus.replay(CallRecorded, self._run, rollout, 0):
                handled += await self._handle(call, closed)
        for kind in ROLLOUTS:
            async for _, message in self._bus.replay(kind, self._run, "*", 0):
                handled += await self._handle(message, closed)
        return handled

    async def _handle(self, message: Message, closed: Collection[str]) -> bool:
        if not isinstance(message, RolloutMessage) or message.group_id in closed:
            return False
        with suppress(Rejected):  # it is a dead letter already
            await self._handling.handle(message)
        return True

    async def _closed(self, starts: Iterable[RolloutScheduled]) -> set[str]:
        """Groups of which nothing more is needed: their message is on the bus, and so is their body, or it is too old."""
        completed = await self._bus.keys(GroupCompleted, self._run)
        oldest = time.time() - self._config.store.ttl_s - self._config.collector.deadline_s
        recent = {m.group_id for m in starts if m.at >= oldest} & completed
        lost = {group for group in recent if await self._lost_its_body(group)}
        return (completed | await self._bus.keys(GroupDiscarded, self._run)) - lost

    async def _lost_its_body(self, group_id: str) -> bool:
        """Whether a group's message refers to a blob that is not there any more. Closing the group anew puts it back."""
        async for _, message in self._bus.replay(GroupCompleted, self._run, group_id, 0):
            if isinstance(message, GroupCompleted) and message.ref is not None:
                return not await self._blobs.has(message.ref)
        return False

    @asynccontextmanager
    async def _held(self) -> AsyncIterator[None]:
        """Shows the other collectors that the rebuilding goes on."""
        holding = asyncio.create_task(self._hold())
        try:
            yield
        finally:
            holding.cancel()

    async def _hold(self) -> None:
        with suppress(ForgeError):  # writing then fails, too
            while True:
                await asyncio.sleep(self._epoch.lease_s / 3)
                await self._epoch.renew(self._token)
