"""One engine gets the newest weights: it takes no calls meanwhile, and proves that it serves them before it does again."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from services.trainer.weights.fleet import Replica
from services.trainer.weights.transport import Transport
from shared.bus import Bus
from shared.config import Config
from shared.errors import EngineError
from shared.events import WeightsFailed, WeightsLoaded
from shared.store.replicas import Replicas

log = logging.getLogger(__name__)

_POLL_S = 0.01


class CallsInFlight(EngineError):
    """Calls did not end in time; the engine still has the weights that it had."""


class WrongWeights(EngineError):
    """An engine serves other weights than it was sent. Sending them again would not help."""


@dataclass(frozen=True, slots=True)
class Target:
    """What engines are to serve.

    Attributes:
        version: of the weights.
        probes: token sequences.
        log_probs: the learner's, of every token of them after the first.
    """

    version: int
    probes: Sequence[Sequence[int]]
    log_probs: Sequence[Sequence[float]]


class Pusher:
    """Brings engines to a target, and says of each in the store whether it takes calls.

    Args:
        config: of the run.
        bus: is told what became of it.
        replicas: the store's table.
        transport: carries the weights.
    """

    def __init__(self, config: Config, bus: Bus, replicas: Replicas, transport: Transport) -> None:
        self._run_id = config.run.id
        self._drains = config.trainer.push.calls == "drain"
        self._patience_s = config.proxy.hold_s
        self._gap = config.trainer.probe_gap
        self._bus = bus
        self._replicas = replicas
        self._transport = transport

    async def bring(self, replica: Replica, target: Target) -> bool:
        """Whether an engine serves the target and takes calls. If not, it takes none, and that is told.

        Raises:
            StoreUnavailable, BusUnavailable: it could not be told.
        """
        replica.busy = True
        try:
            await self._push(replica, target)
        except EngineError as e:
            if not isinstance(e, CallsInFlight):
                replica.forget()
            if isinstance(e, WrongWeights):
                replica.refused = target.version
            await self.fail(replica, target.version, str(e))
            return False
        finally:
            replica.busy = False
        return True

    async def fail(self, replica: Replica, version: int, error: str) -> None:
        """Closes an engine, and tells once why."""
        await self.shut(replica, version)
        words = " ".join(error.split())
        if words == replica.error:
            return
        replica.error = words
        log.warning("%s takes no calls: %s", replica.address, words)
        await self._bus.publish(
            WeightsFailed(
                run_id=self._run_id, version=version, engine=replica.address, replica=replica.number, error=words[:500]
            )
        )

    async def shut(self, replica: Replica, version: int) -> None:
        """Lets no further call begin at an engine. `version`: that calls which it holds go on under."""
        replica.open = False
        await self._replicas.close(replica.address, version)

    async def open(self, replica: Replica, version: int) -> None:
        """Lets calls begin at an engine, stamped with a version."""
        await self._replicas.open(replica.address, version)
        replica.open = True

    async def _push(self, replica: Replica, target: Target) -> None:
        began = time.monotonic()
        if self._drains:
            await self._drain(replica, target)
        else:
            await self.shut(replica, target.version)  # calls that it holds go on under it
        if not replica.prepared:
            await replica.engine.open_transfer()
            replica.prepared = True
        replica.serves = replica.untouched = None
        await self._transport.send(replica)
        gap = await self._probe(replica, target)
        replica.serves = target.version
        await self.open(replica, target.version)
        replica.error = ""
        loaded = WeightsLoaded(
            run_id=self._run_id, version=target.version, engine=replica.address, replica=replica.number,
            push_s=time.monotonic() - began, probe_gap=gap,
        )  # fmt: skip
        await self._bus.publish(loaded)

    async def _drain(self, replica: Replica, target: Target) -> None:
        """Closes an engine; returns when no call is in flight at it. The wait is as long as calls wait for one that is open."""
        before = (await self._replicas.look()).get(replica.address)
        if before is not None and before.open:
            replica.untouched = before.version
        await self.shut(replica, target.version if before is None else before.version)
        until = time.monotonic() + self._patience_s
        while in_flight := await self._replicas.in_flight(replica.address):
            if time.monotonic() >= until:
                raise CallsInFlight(
                    f"{in_flight} model calls are still in flight at {replica.address} after {self._patience_s:g} s "
                    f"(proxy.hold_s)"
                )
            await asyncio.sleep(_POLL_S)

    async def _probe(self, replica: Replica, target: Target) -> float:
        """Largest difference of log-probs between engine and learner on fixed token sequences, in nats."""
        gap = largest_gap(target.log_probs, await replica.engine.log_probs(target.probes))
        if not gap <= self._gap:
            raise WrongWeights(
                f"after a push the log-probs of {replica.address} differ from the trainer's by up to {gap:.3g} nats, more than "
                f"trainer.probe_gap = {self._gap:g}: it serves other weights than were pushed. A usual cause is an output head "
                f"tied to the embeddings: serve a copy made by `python -m services.trainer.weights.serving`. For an "
                f"engine.dtype below float32 raise the limit."
            )
        return gap


def largest_gap(ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]]) -> float:
    """Largest absolute difference of two ragged arrays of the same shape."""
    rows = zip(ours, theirs, strict=True)
    return max(abs(a - b) for row in rows for a, b in zip(*row, strict=True))
