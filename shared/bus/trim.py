"""Making room in a stream. Pure.

A full stream refuses what is published, so that no record goes without a word. Long before it is full, the oldest messages go
that every consumer has acknowledged: an archive is one of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from nats.js.api import ConsumerInfo, StreamState

NEARLY_FULL = 0.75
"""Share of a stream's bytes from which on it is trimmed."""
KEPT = 0.5
"""Share of its messages that stay then, the newest: a service that lost its memory reads them again."""


def backlog(consumer: ConsumerInfo) -> int:
    """Messages that a consumer has not acknowledged: those that it has been sent, and those still to be sent."""
    return (consumer.num_pending or 0) + (consumer.num_ack_pending or 0)


def first_to_keep(state: StreamState, max_bytes: int, consumers: Sequence[ConsumerInfo]) -> int | None:
    """Position of the oldest message that stays; None while there is room, or nothing that may go.

    Args:
        state: of the stream, taken before `consumers`.
        max_bytes: of the stream.
        consumers: all that it has. Without any, nobody has read anything.
    """
    if state.bytes < NEARLY_FULL * max_bytes or not consumers:
        return None
    wanted = state.last_seq + 1 - round((state.last_seq + 1 - state.first_seq) * KEPT)
    keep = min(wanted, min(_done(c, state.last_seq) for c in consumers) + 1)
    return keep if keep > state.first_seq else None


def _done(consumer: ConsumerInfo, last: int) -> int:
    """Position up to which a consumer is through. Its floor stays behind where the rest is not for it."""
    if not backlog(consumer):
        return last
    return consumer.ack_floor.stream_seq if consumer.ack_floor else 0
