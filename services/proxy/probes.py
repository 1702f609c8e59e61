"""What an engine does with token ids in place of messages, found out when it first matters: one that starts cannot say."""

from __future__ import annotations

import logging

from services.proxy.bridge import Declined
from services.proxy.errors import EngineRefused
from services.proxy.upstream import Engine

log = logging.getLogger(__name__)


class Probes:
    """Asks once, and remembers: all engines of a run are alike."""

    def __init__(self) -> None:
        self._takes_ids: bool | None = None
        self._sorts_thinking: bool | None = None

    async def check_ids(self, engine: Engine, ids: list[int]) -> None:
        """Makes certain that the engine takes ids.

        Raises:
            Declined: it does not.
            Refused: it failed.
        """
        if self._takes_ids is None:
            self._takes_ids = await engine.takes_ids(ids)
            if not self._takes_ids:
                log.warning("the engine takes no token ids on its chat route: calls are recorded, not spliced")
        if not self._takes_ids:
            raise Declined("engine_takes_no_ids")

    async def check_thinking(self, engine: Engine, prompt: bytes, thought: int) -> None:
        """Makes certain that new thinking is told from the answer where there is earlier thinking in the prompt. Several of
        vLLM's parsers take all that follows a closed thought for the answer; templates leave earlier thoughts out, ids do not.

        Args:
            engine: to be asked.
            prompt: ids with a thought in them, as a JSON array.
            thought: token that a thought of this model began with.

        Raises:
            Declined: it is not.
            Refused: the engine failed.
        """
        if self._sorts_thinking is None:
            self._sorts_thinking = await self._sorts(engine, prompt, thought)
            if not self._sorts_thinking:
                log.warning("the engine's reasoning parser takes thinking after a thought for text: such calls are recorded")
        if not self._sorts_thinking:
            raise Declined("thinking_misread")

    async def _sorts(self, engine: Engine, prompt: bytes, thought: int) -> bool:
        try:
            reply = await engine.forced(prompt, thought)
        except EngineRefused as e:
            log.info("the engine does not say how it reads thinking: %s", e)
            return True
        return not reply.content
