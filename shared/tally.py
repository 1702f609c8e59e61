"""Counts that a service keeps while it runs, and says in its log."""

from __future__ import annotations

import logging
from collections import Counter

log = logging.getLogger(__name__)

TELL_S = 60.0
"""How often counts that have changed go to the log; they also do when a service ends."""


class Tally:
    """Counts under one name.

    Args:
        name: what the line in the log begins with.

    Attributes:
        counts: what was counted.
    """

    def __init__(self, name: str) -> None:
        self.counts: Counter[str] = Counter()
        self._name, self._told = name, Counter[str]()

    def tell(self) -> None:
        """Logs the counts, unless they are what they were the last time."""
        if self.counts != self._told:
            self._told = self.counts.copy()
            log.info("%s: %s", self._name, ", ".join(f"{what} {n}" for what, n in sorted(self._told.items())))
