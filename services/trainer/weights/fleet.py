"""The engines of a run, as the trainer knows them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field

from services.trainer.weights.client import VllmEngine
from shared.errors import EngineError

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Replica:
    """One engine.

    Attributes:
        number: among the engines of the run, from 0.
        address: base URL.
        engine: its client.
        serves: version that it proved to serve; None for one that was not pushed to, or was restarted.
        open: it takes calls.
        prepared: it is ready for weights to be sent.
        busy: weights are being loaded.
        untouched: version that it goes on with where its calls did not end; None once weights are sent.
        refused: version that it does not serve as it was sent; it is not tried again.
        heard: monotonic seconds at which it last answered.
        error: why it takes no calls; empty while it does.
    """

    number: int
    address: str
    engine: VllmEngine
    serves: int | None = None
    open: bool = False
    prepared: bool = False
    busy: bool = False
    untouched: int | None = None
    refused: int | None = None
    heard: float = field(default_factory=time.monotonic)
    error: str = ""
    counted: int = 0
    counted_before: int = 0

    def forget(self) -> None:
        """It was restarted, or its weights may be mixed: nothing is known of it."""
        self.serves, self.untouched, self.refused, self.prepared = None, None, None, False

    def count(self, tokens: int) -> bool:
        """Takes in its own count of sampled tokens. Returns whether it began anew since the last time."""
        again = tokens < self.counted
        self.counted_before += self.counted if again else 0
        self.counted = tokens
        return again


class Fleet:
    """All engines of a run.

    Args:
        addresses: their base URLs.
        name: model name that they answer to.

    Attributes:
        restarts: how often the count of an engine began anew; what it sampled just before is on no count.
    """

    def __init__(self, addresses: Sequence[str], name: str) -> None:
        self.replicas = [Replica(n, address, VllmEngine(address, name)) for n, address in enumerate(addresses)]
        self.restarts = 0

    async def wait_healthy(self, timeout_s: float) -> None:
        """Returns when all engines answer, or after the time if one does.

        Raises:
            EngineError: none does.
        """
        await self._any(*(r.engine.wait_healthy(timeout_s) for r in self.replicas))

    async def open_transfer(self) -> None:
        """Makes the engines ready to load weights.

        Raises:
            EngineError: none can be made.
        """
        await self._any(*(self._prepare(r) for r in self.replicas))

    async def generated_tokens(self) -> int:
        """Tokens that all engines have sampled in the run. For one that does not answer it is what it said last."""
        await asyncio.gather(*(self._count(r) for r in self.replicas))
        return sum(r.counted_before + r.counted for r in self.replicas)

    def take_probed(self) -> int:
        """Tokens that were sampled for our own measurements since this was asked last."""
        probed = sum(r.engine.probed for r in self.replicas)
        for replica in self.replicas:
            replica.engine.probed = 0
        return probed

    async def close(self) -> None:
        """Closes connections."""
        await asyncio.gather(*(r.engine.close() for r in self.replicas))

    async def _prepare(self, replica: Replica) -> None:
        await replica.engine.open_transfer()
        replica.prepared = True

    async def _count(self, replica: Replica) -> None:
        try:
            self.restarts += replica.count(await replica.engine.generated_tokens())
        except EngineError as e:
            log.warning("tokens are counted later: %s", e)

    async def _any(self, *attempts: Awaitable[None]) -> None:
        """Returns when all attempts have ended; raises the first error if none succeeded."""
        outcomes = await asyncio.gather(*attempts, return_exceptions=True)
        errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        unexpected = [e for e in errors if not isinstance(e, EngineError)]
        if unexpected or len(errors) == len(outcomes):
            raise (unexpected or errors)[0]
        for error in errors:
            log.warning("%s", error)
