"""Scores a constrained reply once more, without its constraint.

Under a grammar or a forced tool the engine's log-probs are those of what was allowed. Where they are also what the same weights
say without it, the reply is as good as any other for training.
"""

from __future__ import annotations

import logging

from services.proxy.errors import Refused
from services.proxy.recorder import Call
from shared.config import ProxyConfig

log = logging.getLogger(__name__)


class Replay:
    """Scores replies on the engines that sampled them, if the configuration asks for it."""

    def __init__(self, config: ProxyConfig) -> None:
        self._wanted = config.replay_constrained and config.mode != "teacher"

    async def gap(self, call: Call) -> float | None:
        """Largest difference (nats) between a whole reply's log-probs and those without its constraint.

        It has to be asked for before the call is settled: until then no other weights are loaded. None for a reply that had no
        constraint, and where the engine could not say.

        Raises:
            FidelityError: the reply itself cannot be recorded.
        """
        answer = call.answer
        if not (self._wanted and call.turn.constrained and answer.completion):
            return None
        answer.check()
        try:
            scored = await call.engine.log_probs(answer.prompt, answer.completion)
        except Refused as e:
            log.warning("a constrained reply was not scored again and will not be trained: %s", e)
            return None
        return max(abs(a - b) for a, b in zip(scored, answer.logprobs, strict=True))
