"""A model that judges."""

from __future__ import annotations

from typing import TypeVar

from services.synth.models.client import Models

T = TypeVar("T")


class ModelJudge:
    """See `Judge`.

    Args:
        models: of which one is the judge's.
    """

    def __init__(self, models: Models) -> None:
        self._models = models

    async def ask(self, text: str, kind: type[T]) -> T:
        """See `Judge.ask`."""
        return (await self._models.ask("judge", text, kind)).value
