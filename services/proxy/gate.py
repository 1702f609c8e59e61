"""Which engines take calls, and which weight version these are stamped with, where the store does not know.

It is in the store, where the trainer closes and opens engines. After a store was wiped, and in a new run, it follows from what
the bus has of the run's weights. Until then calls are held.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from shared.bus import Bus
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
        addresses: of the run's engines, in their order.
    """

    def __init__(self, run_id: str, bus: Bus, replicas: Replicas, addresses: Sequence[str]) -> None:
        self._run_id = run_id
        self._bus = bus
        self._replicas = replicas
        self._addresses = list(addresses)

    async def keep(self) -> None:
        """Makes every engine known that is not; doing it again changes nothing. One that has not told of the newest weights
        stays unknown, and takes no calls: the trainer opens it, or says that it has.

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
        ready = {address: max(version, 0) for address, version in versions.items() if version >= published}
        if ready:
            await self._replicas.restore(ready)
            log.info("calls are stamped with weight versions %s", ready)
        elif len(unknown) == len(self._addresses):
            log.warning("weights are being loaded; calls wait until they are")

    async def _newest(self, kind: type[Message]) -> dict[int, int]:
        """The highest version of which there is such a message, by the engine's number."""
        newest: dict[int, int] = {}
        for key in await self._bus.keys(kind, self._run_id):
            version, _, replica = key.removeprefix("v").partition("-r")
            if version.isdecimal() and (replica or "0").isdecimal():
                number = int(replica or 0)
                newest[number] = max(int(version), newest.get(number, _NONE))
        return newest
