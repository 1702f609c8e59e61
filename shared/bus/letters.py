"""How a dead letter is kept: the body as it came, and what is said about it as headers."""

from __future__ import annotations

from nats.js import api

from shared.bus import DeadLetter
from shared.subjects import living_subject

_CONSUMER, _REASON, _SIZE = "Forge-Consumer", "Forge-Reason", "Forge-Size"


def headers_of(consumer: str, reason: str, size: int) -> dict[str, str]:
    """What is said about a message of `size` bytes that a consumer gave up."""
    return {_CONSUMER: consumer, _REASON: reason.encode("ascii", "replace").decode(), _SIZE: str(size)}


def letter_of(kept: api.RawStreamMsg) -> DeadLetter:
    """A dead letter as it is kept. What a stranger put there has no more to it than a subject and a body."""
    headers, data = kept.headers or {}, kept.data or b""
    size = headers.get(_SIZE, "")
    return DeadLetter(
        number=int(kept.seq or 0),
        at=taken_at(kept),
        subject=living_subject(kept.subject or ""),
        consumer=headers.get(_CONSUMER, ""),
        reason=headers.get(_REASON, ""),
        size=int(size) if size.isdecimal() else len(data),
        data=data,
    )


def taken_at(kept: api.RawStreamMsg) -> float:
    """Unix time at which a stream took a message."""
    return kept.time.timestamp() if kept.time else 0.0
