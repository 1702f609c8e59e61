"""Which sandboxes stay after their attempt, for somebody to look at. Pure."""

from __future__ import annotations

from typing import Literal

from services.orchestrator.state import Outcome
from shared.events import RolloutFinished

Keep = Literal["none", "failed", "all"]


def kept(keep: Keep, outcome: Outcome) -> bool:
    """Whether the sandbox of an attempt with that outcome stays."""
    return keep == "all" or (keep == "failed" and not isinstance(outcome, RolloutFinished))
