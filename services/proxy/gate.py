"""Which engines take calls, and which weight version these are stamped with, where the store does not know.

It is in the store, where the trainer closes and opens engines. After a store was wiped, and in a new run, it follows from what
the bus has of the run's weights, and from what the engine says of its own: it may be another one than was told of, started anew
with its first weights. Until then calls are held.
"""

from __future__ import annotations

import asyncio
import logging

from services.proxy.engines import Engines
from shared.bus import Bus
from shared.errors import EngineError
from shared.events import Message, WeightsLoaded, WeightsPublished
from shared.store.replicas import Replicas

log = logging.getLogger(__name__)

_NONE = -1


class Gate:
    """The gate of one run.

    Args:
        run_id: of the run.
        bus: has what was told of weights.
        replicas: the store's table.
        engines: of the run.
    """

    def __init__(self, run_id: str, bus: Bus, replicas: Replicas, engines: Engines) -> None:
        self._run_id = run_id
        self._bus = bus
        self._replicas = replicas
        self._engines, self._addresses = engines, engines.addresses

    async def keep(self) -> None:
        """Makes every engine known that is not; doing it again changes nothing. One of which the newest weights were not
        told, or that does not say that it serves them, stays unknown and takes no calls: the trainer opens it, or loads them.

        Raises:
            StoreUnavailable, BusUnavailable: to be tried again.
        """
        await self._replicas.retain(self._addresses)
        unknown = await self._replicas.unknown(self._addresses)
        if not unknown:
            return
        loaded, published = (
            await self._newest(WeightsLoaded),
            max((await self._newest(WeightsPublished)).values(), default=_NONE),
        )
        versions = {address: loaded.get(self._addresses.index(address), _NONE) for address in unknown}
        newest = {address: version for address, version in versions.items() if version >= published}
        serve = await asyncio.gather(*(self._serves(address, version) for address, version in newest.items()))
        ready = {address: max(version, 0) for (address, version), does in zip(newest.items(), serve, strict=True) if does}
        if ready:
            await self._replicas.restore(ready)
            log.info("calls are stamped with weight versions %s", ready)
        elif len(unknown) == len(self._addresses):
            log.warning("weights are being loaded; calls wait until they are")

    async def _serves(self, address: str, version: int) -> bool:
        if version == _NONE:  # nothing was ever loaded into any: it has what it was started with
            return True
        try:
            return await self._engines.at(address).version() == str(version)
        except EngineError as e:
            log.warning("calls wait until it is known which weights an engine serves: %s", e)
            return False

    async def _newest(self, kind: type[Message]) -> dict[int, int]:
        """The highest version of which there is such a message, by the engine's number."""
        newest: dict[int, int] = {}
        for key in await self._bus.keys(kind, self._run_id):
            version, _, replica = key.removeprefix("v").partition("-r")
            if version.isdecimal() and (replica or "0").isdecimal():
                number = int(replica or 0)
                newest[number] = max(int(version), newest.get(number, _NONE))
        return newest
