"""Hands new weights to the engine: nothing samples meanwhile, and the engine proves that it serves them."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence

from services.trainer.ports import Learner
from services.trainer.tools import Tools
from shared.errors import EngineError
from shared.events import WeightsLoaded, WeightsPublished

PROBES, PROBE_TOKENS = 4, 32
_POLL_S = 0.01


class Publisher:
    """Publishes versions of a learner's weights.

    Args:
        tools: of the run.
        vocab_size: ids that the probe may draw.
    """

    def __init__(self, tools: Tools, vocab_size: int) -> None:
        self._config = tools.config
        self._bus = tools.bus
        self._sessions = tools.sessions
        self._engine = tools.engine
        self._thread = tools.thread
        self._files = tools.files
        self._probes = probe_sequences(vocab_size, tools.config.engine.max_model_len)

    async def publish(self, learner: Learner, version: int) -> None:
        """Returns when the engine serves a version and model calls may begin again, stamped with it.

        Raises:
            EngineError: calls did not end, the engine refused, or its log-probs are not the learner's. In the last two cases
                the gate stays closed, since it is not known what the engine would sample from.
        """
        run, file, began = self._config.run.id, self._files.pushed(version), time.monotonic()
        await self._thread.run(learner.export, file)
        await self._bus.publish(WeightsPublished(run_id=run, version=version, path=str(file)))
        await self._close_gate()
        await self._engine.load(file, version)
        gap = await self._probe(learner)
        await self._sessions.open_gate(version)
        took = time.monotonic() - began
        loaded = WeightsLoaded(run_id=run, version=version, engine=self._config.engine.url, push_s=took, probe_gap=gap)
        await self._bus.publish(loaded)

    async def check_served(self, version: int) -> None:
        """Raises `EngineError` if the engine serves anything but a version: it was restarted meanwhile."""
        served = await self._engine.version()
        if served != str(version):
            raise EngineError(f"the engine serves weights {served!r}, not version {version}: it was restarted; see its log")

    async def _close_gate(self) -> None:
        """Returns when no call is in flight. The wait is as long as calls wait at the gate; after that they would fail."""
        await self._sessions.close_gate()
        loop = asyncio.get_running_loop()
        until = loop.time() + self._config.proxy.hold_s
        while in_flight := await self._sessions.in_flight():
            if loop.time() >= until:
                await self._sessions.open_gate(await self._sessions.version())
                raise EngineError(
                    f"{in_flight} model calls are still in flight after {self._config.proxy.hold_s:g} s (proxy.hold_s)"
                )
            await asyncio.sleep(_POLL_S)

    async def _probe(self, learner: Learner) -> float:
        """Largest difference of log-probs between engine and learner on fixed token sequences, in nats."""
        ours = await self._thread.run(learner.log_probs, self._probes)
        gap = largest_gap(ours, await self._engine.log_probs(self._probes))
        limit = self._config.trainer.probe_gap
        if not gap <= limit:
            raise EngineError(
                f"after a push the engine's log-probs differ from the trainer's by up to {gap:.3g} nats, more than "
                f"trainer.probe_gap = {limit:g}: it serves other weights than were pushed. A usual cause is an output head "
                f"tied to the embeddings: serve a copy made by `python -m services.trainer.serving`. For an engine.dtype below "
                f"float32 raise the limit."
            )
        return gap


def probe_sequences(vocab_size: int, longest: int) -> list[list[int]]:
    """The token sequences of the probe: random ids, the same ones each time."""
    rng = random.Random(0)
    return [[rng.randrange(vocab_size) for _ in range(min(PROBE_TOKENS, longest - 1))] for _ in range(PROBES)]


def largest_gap(ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]]) -> float:
    """Largest absolute difference of two ragged arrays of the same shape."""
    rows = zip(ours, theirs, strict=True)
    return max(abs(a - b) for row in rows for a, b in zip(*row, strict=True))
