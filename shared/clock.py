"""Points in time that a person writes."""

from __future__ import annotations

from datetime import UTC, datetime


def unix(text: str) -> float:
    """Seconds since 1970 of an ISO time such as `2026-01-01T09:00:00Z`; without a zone it is UTC.

    Raises:
        ValueError: it is none, or before 1970.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no time; write it as 2026-01-01T09:00:00Z") from None
    seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if seconds < 0:
        raise ValueError(f"{text!r} is before 1970")
    return seconds
