"""A run's share of a pool that others use too, kept up to date for as long as the orchestrator works."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable

from services.orchestrator.fairness import settled
from services.orchestrator.queue import Queue
from shared.errors import StoreUnavailable
from shared.store.shares import Part, Shares

log = logging.getLogger(__name__)

LOOK_S, LOOK_UNMET_S = 2.0, 0.5
"""Between two looks at the pool when nothing changed here: at rest, and while more places are wanted than there are."""
_PAUSE_S = 0.05
"""Shortest time between two looks."""


class Share:
    """Tells the pool what the run holds and wants, and its queue how many places the run may hold.

    While this talks to the pool, and while the store is away, no place is taken beyond those that are held; once the lease has
    run out others have them, and nothing begins.

    Args:
        shares: of the pool.
        run: id of the run.
        weight, size: see `Part`.
        queue: whose rollouts want places.
        moved: is called when rollouts may begin.
    """

    def __init__(self, shares: Shares, run: str, weight: float, size: int, queue: Queue, moved: Callable[[], None]) -> None:
        self._shares, self._run, self._queue, self._moved = shares, run, queue, moved
        self._weight, self._size = weight, size
        self._changed = asyncio.Event()
        self._until = 0.0
        self._turn = 0
        queue.limit(0)

    def note(self) -> None:
        """What the run holds or wants has changed."""
        self._changed.set()

    async def forever(self) -> None:
        """Keeps the share; what goes wrong is tried again."""
        away = False
        while True:
            self._changed.clear()
            try:
                await self.sync()
                if away:
                    log.info("the pool is there again")
                away = False
            except StoreUnavailable as e:
                if not away:
                    log.warning("the pool cannot be asked for places, so no more of them are taken: %s", e)
                away = True
            await self._pause(away)

    async def sync(self) -> None:
        """Tells the pool how things stand, and takes the places that are this run's.

        Raises:
            StoreUnavailable: the store does not answer.
        """
        self._queue.limit(self._queue.running if time.monotonic() < self._until else 0)
        held = self._queue.running  # no more begin meanwhile; if some end, others may take their places
        while True:
            began, pool = time.monotonic(), await self._shares.look()
            others = {run: part for run, part in pool.parts.items() if run != self._run}
            mine = Part(weight=self._weight, size=self._size, held=held, want=max(held, self._queue.want), room=held,
                        turn=self._turn)  # fmt: skip
            part = settled(self._run, mine, others, pool.young)
            if await self._shares.put(pool.version, self._run, part):
                break
            await asyncio.sleep(random.uniform(0, _PAUSE_S))
        self._until, self._turn = began + self._shares.lease_s, part.turn
        self._queue.limit(part.room)
        self._moved()

    async def stop(self, leave: bool) -> None:
        """Gives all places back if nothing runs any more (`leave`); else the next orchestrator finds them, within a lease."""
        try:
            if leave:
                await self._shares.leave(self._run)
        except StoreUnavailable as e:
            log.warning("the places are given back when their lease runs out: %s", e)
        await self._shares.close()

    async def _pause(self, away: bool) -> None:
        await asyncio.sleep(_PAUSE_S)
        unmet = away or self._queue.want > self._queue.running
        try:
            async with asyncio.timeout(LOOK_UNMET_S if unmet else LOOK_S):
                await self._changed.wait()
        except TimeoutError:
            return
