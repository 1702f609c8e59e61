"""What becomes of one delivery of a message: decided here once, for the real bus and for its twin."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from shared.bus import DeadLetter, Handler, Tapped
from shared.errors import InvalidId, Rejected
from shared.events import Message, RolloutMessage, decode
from shared.log import log_context
from shared.subjects import subject_of

log = logging.getLogger(__name__)

PAYLOAD_MARGIN = 64 * 1024
_GROWTH, _LONGEST_S = 4, 30.0


def tapped(subject: str, data: bytes) -> Tapped:
    """What a tap shows of a message; anything at all may be published beside ours."""
    try:
        return Tapped(subject, decode(data), data)
    except msgspec.DecodeError:
        return Tapped(subject, None, data)


def check_size(subject: str, data: bytes, max_payload: int) -> None:
    """Raises Rejected when a message would leave less than 64 KB of the server's largest one for its headers."""
    limit = max_payload - PAYLOAD_MARGIN
    if len(data) > limit:
        raise Rejected(f"{subject}: {len(data)} bytes are more than the bus takes ({limit}, see bus.max_payload)")


def read(subject: str, data: bytes, types: Sequence[type[Message]]) -> Message:
    """The message of one of some types that was published on a subject.

    Raises:
        Rejected: it is none, or says that it is about something else than its subject does.
    """
    try:
        message = decode(data)
        own = subject_of(message)
    except (msgspec.DecodeError, InvalidId) as e:
        raise Rejected(f"not a message: {e}") from e
    if not isinstance(message, tuple(types)):
        raise Rejected(f"nobody asked for a {type(message).__name__} here")
    if own != subject:
        raise Rejected(f"it belongs on the subject {own}")
    return message


def replayed(subject: str, data: bytes, kind: type[Message]) -> Message | None:
    """A kept message that is read again; None where it is none of its kind, as its consumers will have found, too."""
    try:
        return read(subject, data, [kind])
    except Rejected as e:
        log.warning("replaying %s: one is left out: %s", subject, e)
        return None


def revival_id(letter: DeadLetter) -> str:
    """The id under which a dead letter is published again: the bus would drop it under its own."""
    return f"revived/{letter.number}/{letter.at}"


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


def _of(message: Message) -> dict[str, str]:
    """Which rollout a message is about, for the log."""
    return {"rollout": message.rollout_id} if isinstance(message, RolloutMessage) else {}


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

    async def deliver(
        self, subject: str, data: bytes, delivery: int, seen: Callable[[Message], None] = lambda _: None
    ) -> Outcome:
        """Handles one delivery (counted from 1) of a message; `seen` is told of it first. Raises nothing but cancellation."""
        if delivery > self.max_deliver:  # its consumer went silent each time: it may well have died of this message
            return self._dead(f"no answer to {self.max_deliver} deliveries")
        try:
            message = read(subject, data, self.types)
            seen(message)
            with log_context(run=message.run_id, event=message.event_id, **_of(message)):
                await self.handler(message)
        except Rejected as e:
            return self._dead(str(e))
        except Exception as e:
            log.exception("%s failed on delivery %d of %d", self.durable, delivery, self.max_deliver)
            if delivery == self.max_deliver:
                return self._dead(f"{type(e).__name__}: {e}")
            return Outcome("later", delay_s=min(self.retry_s * _GROWTH ** (delivery - 1), _LONGEST_S))
        return Outcome("handled")

    def _dead(self, reason: str) -> Outcome:
        line = " ".join(reason.split())[:500]
        log.error("%s gives a message up: %s", self.durable, line)
        return Outcome("dead", reason=line)
