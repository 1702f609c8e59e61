"""Where sampled tokens went. A token is trained, or has one reason why not: the first that kept it from being trained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal

from shared.events import TokenCounts

MASKED = frozenset({"aux", "constrained", "cut", "stray_media", "superseded", "unresolved"})
"""Reasons by which a call of an attempt that counts is not trained; tokens with any other reason are dropped."""


def count(parts: Iterable[tuple[int, str | None]]) -> TokenCounts:
    """Counts (sampled tokens, reason why they are not trained or None) of calls."""
    tokens: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for n, reason in parts:
        tokens["trained" if reason is None else "masked" if reason in MASKED else "dropped"] += n
        if reason is not None and n:
            reasons[reason] += n
    return TokenCounts(
        sampled=tokens.total(),
        trained=tokens["trained"],
        masked=tokens["masked"],
        dropped=tokens["dropped"],
        reasons=dict(sorted(reasons.items())),
    )


def total(parts: Iterable[TokenCounts]) -> TokenCounts:
    """The sum of counts."""
    counts = list(parts)
    reasons: Counter[str] = Counter()
    for c in counts:
        reasons.update(c.reasons)
    return TokenCounts(
        sampled=sum(c.sampled for c in counts),
        trained=sum(c.trained for c in counts),
        masked=sum(c.masked for c in counts),
        dropped=sum(c.dropped for c in counts),
        reasons=dict(sorted(reasons.items())),
    )


def untrain(counts: TokenCounts, reason: str, into: Literal["masked", "dropped"] = "dropped") -> TokenCounts:
    """Moves all trained tokens to `into`, for `reason`; what was masked or dropped before keeps its own reason."""
    moved = TokenCounts(
        sampled=counts.trained,
        masked=counts.trained if into == "masked" else 0,
        dropped=counts.trained if into == "dropped" else 0,
        reasons={reason: counts.trained} if counts.trained else {},
    )
    rest = TokenCounts(
        sampled=counts.sampled - counts.trained, masked=counts.masked, dropped=counts.dropped, reasons=counts.reasons
    )
    return total([rest, moved])
