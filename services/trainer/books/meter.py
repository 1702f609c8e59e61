"""The engine's own count of what training rollouts sample, beside which the records are laid."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from services.trainer.journal.history import History
from services.trainer.journal.records import Metered
from services.trainer.weights.fleet import Fleet


class Meter:
    """Reads the engine's count. Between `open` and `close` all that it samples is training's, but for probes and for what is
    `apart`."""

    def __init__(self, engine: Fleet, history: History) -> None:
        self._engine = engine
        self._history = history

    async def open(self) -> None:
        """From now on training rollouts are sampled, unless they were before."""
        if self._history.state.meter is None:
            self._engine.take_probed()
            await self._history.note(Metered(count=await self._engine.generated_tokens()))

    async def read(self, apart: int = 0) -> None:
        """Enters what was sampled since the last reading, less so many tokens that were nobody's rollout."""
        if self._history.state.meter is not None:
            await self._enter(apart, keep=True)

    async def close(self) -> None:
        """No training rollout is sampled from now on."""
        if self._history.state.meter is not None:
            await self._enter(0, keep=False)

    @asynccontextmanager
    async def counted(self, going_on: bool) -> AsyncIterator[None]:
        """Enters what is sampled meanwhile; `going_on` says that training rollouts are sampled afterwards, too."""
        await self.open()
        try:
            yield
        finally:
            await (self.read() if going_on else self.close())

    async def _enter(self, apart: int, keep: bool) -> None:
        before, now = self._history.state.meter, await self._engine.generated_tokens()
        assert before is not None, "the meter is open"
        anew = now < before
        sampled = max(0, (now if anew else now - before) - apart - self._engine.take_probed())
        lost = anew or self._engine.restarts > 0
        await self._history.note(Metered(count=now if keep else None, sampled=sampled, lost=lost))
