"""The engine's gate: whether calls may begin, and which weight version they are stamped with.

It is in the store, where the trainer closes and opens it. Where the store does not know of it (a new run, or a store that was
wiped) it follows from what the bus has of the run's weights. Until then calls are held.
"""

from __future__ import annotations

import logging

from shared.bus import Bus
from shared.events import Message, WeightsLoaded, WeightsPublished
from shared.store.sessions import Sessions

log = logging.getLogger(__name__)

_NONE = -1


class Gate:
    """The gate of one run."""

    def __init__(self, run_id: str, bus: Bus, sessions: Sessions) -> None:
        self._run_id = run_id
        self._bus = bus
        self._sessions = sessions

    async def keep(self) -> None:
        """Makes the gate known if it is not; doing it again changes nothing. While weights are being loaded it stays unknown:
        the trainer opens it, or says that it has.

        Raises:
            StoreUnavailable, BusUnavailable: to be tried again.
        """
        if await self._sessions.knows_gate():
            return
        loaded = await self._latest(WeightsLoaded)
        if await self._latest(WeightsPublished) > loaded:
            log.warning("weights are being loaded; calls wait until they are")
            return
        version = max(loaded, 0)
        await self._sessions.restore_gate(version)
        log.info("calls are stamped with weight version %d", version)

    async def _latest(self, kind: type[Message]) -> int:
        """The highest version of which there is such a message."""
        keys = await self._bus.keys(kind, self._run_id)
        return max((int(key.removeprefix("v")) for key in keys if key.removeprefix("v").isdecimal()), default=_NONE)
