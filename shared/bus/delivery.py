"""What becomes of one delivery of a message: decided here once, for the real bus and for its twin."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from shared.bus import Handler, Tapped
from shared.errors import Rejected
from shared.events import Message, decode
from shared.log import log_context

log = logging.getLogger(__name__)

PAYLOAD_MARGIN = 64 * 1024
_GROWTH, _LONGEST_S = 4, 30.0
_UNREADABLE = (msgspec.DecodeError, RecursionError)  # the latter for arrays nested without end


def tapped(subject: str, data: bytes) -> Tapped:
    """What a tap shows of a message; anything at all may be published beside ours."""
    try:
        return Tapped(subject, decode(data), data)
    except _UNREADABLE:
        return Tapped(subject, None, data)


def check_size(subject: str, data: bytes, max_payload: int) -> None:
    """Raises Rejected when a message would leave less than 64 KB of the server's largest one for its headers."""
    limit = max_payload - PAYLOAD_MARGIN
    if len(data) > limit:
        raise Rejected(f"{subject}: {len(data)} bytes are more than the bus takes ({limit}, see bus.max_payload)")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What to do with a message.

    Attributes:
        kind: `handled` (acknowledge it), `later` (deliver it again), `dead` (make it a dead letter).
        delay_s: seconds until it is delivered again.
        reason: why it is dead, one line.
    """

    kind: Literal["handled", "later", "dead"]
    delay_s: float = 0.0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Consumer:
    """Who handles which messages, and how patiently.

    Attributes:
        durable: name that its processes share.
        types: what it subscribed to.
        handler: makes the effect.
        max_deliver: deliveries before a message becomes a dead letter.
        retry_s: delay after the first failed delivery; each further one is four times as long, up to 30 s.
    """

    durable: str
    types: Sequence[type[Message]]
    handler: Handler
    max_deliver: int
    retry_s: float

    async def deliver(self, data: bytes, delivery: int) -> Outcome:
        """Handles one delivery (counted from 1) of a message. Raises nothing but cancellation."""
        if delivery > self.max_deliver:  # its consumer went silent each time: it may well have died of this message
            return self._dead(f"no answer to {self.max_deliver} deliveries")
        try:
            message = self._read(data)
            with log_context(run=message.run_id, message=message.event_id):
                await self.handler(message)
        except Rejected as e:
            return self._dead(str(e))
        except Exception as e:
            log.exception("%s failed on delivery %d of %d", self.durable, delivery, self.max_deliver)
            if delivery == self.max_deliver:
                return self._dead(f"{type(e).__name__}: {e}")
            return Outcome("later", delay_s=min(self.retry_s * _GROWTH ** (delivery - 1), _LONGEST_S))
        return Outcome("handled")

    def _read(self, data: bytes) -> Message:
        try:
            message = decode(data)
        except _UNREADABLE as e:
            raise Rejected(f"not a message: {e}") from e
        if not isinstance(message, tuple(self.types)):
            raise Rejected(f"{self.durable} did not ask for a {type(message).__name__}")
        return message

    def _dead(self, reason: str) -> Outcome:
        line = " ".join(reason.split())[:500]
        log.error("%s gives a message up: %s", self.durable, line)
        return Outcome("dead", reason=line)
