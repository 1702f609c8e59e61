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

    A place whose rollout ended goes back to the pool: it may be another run's turn. While this talks to the pool none is taken.
    While the store is away the run keeps what it was given, until its lease has run out and others have it.

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
        self._kept = 0  # places that the pool takes for this run's
        self._turn = 0
        queue.limit(0)

    def note(self) -> None:
        """What the run holds or wants has changed."""
        self._changed.set()

    async def forever(self) -> None:
        """Keeps the share; what goes wrong is tried again."""
        away, task = False, asyncio.current_task()
        while not (task and task.cancelling()):  # a client may take its cancellation for a wait that was too long
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
        held = self._queue.running
        self._queue.limit(held)
        try:
            self._queue.limit(await self._room(held) - (held - self._queue.running))
        except StoreUnavailable:
            self._queue.limit(self._kept if time.monotonic() < self._until else 0)
            raise
        finally:
            self._moved()

    async def _room(self, held: int) -> int:
        """How many places the run may hold, by what the pool says now."""
        while True:
            began, pool = time.monotonic(), await self._shares.look()
            others = {run: part for run, part in pool.parts.items() if run != self._run}
            want = max(held, self._queue.want)
            mine = Part(weight=self._weight, size=self._size, held=held, want=want, room=held, turn=self._turn)
            part = settled(self._run, mine, others, pool.young)
            self._kept = min(self._kept, part.room)  # no answer would say nothing about whether it was taken down
            if await self._shares.put(pool.version, self._run, part):
                self._until, self._kept, self._turn = began + self._shares.lease_s, part.room, part.turn
                return part.room
            await asyncio.sleep(random.uniform(0, _PAUSE_S))

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
