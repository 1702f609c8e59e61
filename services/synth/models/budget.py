"""What may still be spent. A call holds the most that it can cost until it is known what it cost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from services.synth.models.answers import Paid
from shared.errors import BudgetError


class Bill:
    """What one call cost; nothing as long as nobody says."""

    def __init__(self) -> None:
        self.usd = 0.0
        self.answered = False

    def pay(self, usd: float) -> None:
        """The call was answered."""
        self.usd, self.answered = usd, True


class Budget:
    """Money and calls of one run.

    Args:
        usd: to spend at most; 0 is no limit.
        calls: that may be answered at most; 0 is no limit.

    Attributes:
        usd: spent.
        calls: that were answered.
    """

    def __init__(self, usd: float, calls: int) -> None:
        self.usd, self.calls = 0.0, 0
        self._most_usd, self._most_calls = usd, calls
        self._held_usd, self._held_calls = 0.0, 0
        self._settled = asyncio.Condition()

    def count(self, paid: Iterable[Paid]) -> None:
        """Adds what was spent in earlier lives of this process."""
        for one in paid:
            self.usd += one.usd
            self.calls += 1

    @asynccontextmanager
    async def hold(self, most: float) -> AsyncIterator[Bill]:
        """Holds money for a call, and waits if only what others hold stands in its way.

        Args:
            most: that the call can cost, in US dollars.

        Raises:
            BudgetError: it does not fit into what is left.
        """
        async with self._settled:
            while problem := self._too_much(most, self._held_usd, self._held_calls):
                if not self._held_calls or self._too_much(most, 0.0, 0):
                    raise BudgetError(problem)
                await self._settled.wait()
            self._held_usd += most
            self._held_calls += 1
        bill = Bill()
        try:
            yield bill
        finally:
            self._held_usd -= most
            self._held_calls -= 1
            self.usd += bill.usd
            self.calls += bill.answered
            async with self._settled:
                self._settled.notify_all()

    def _too_much(self, most: float, held_usd: float, held_calls: int) -> str:
        if self._most_calls and self.calls + held_calls >= self._most_calls:
            return f"{self.calls} model calls are made, as many as may be; raise synth.budget.max_calls for more"
        if self._most_usd and self.usd + held_usd + most > self._most_usd:
            return (
                f"a call that may cost ${most:.4f} does not fit: ${self.usd:.4f} of ${self._most_usd:.2f} are spent; "
                "raise synth.budget.max_usd for more"
            )
        return ""
