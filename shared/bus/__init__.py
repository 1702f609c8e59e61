"""The bus port. `shared.bus.nats` is the real one, `shared.bus.memory` its twin for tests; one contract suite tests both."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from shared.errors import Rejected
from shared.events import Message

Handler = Callable[[Message], Awaitable[None]]
"""Returns once the effect of a message is durable (then it is acknowledged). Raising `Rejected` makes it a dead letter at
once; any other error means "later": redelivery with growing delays, and a dead letter after the last one."""


@dataclass(frozen=True, slots=True)
class Tapped:
    """A message seen by a tap: subject, decoded message (None when it is not one of ours) and the raw bytes."""

    subject: str
    message: Message | None
    data: bytes


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that nobody could handle.

    Attributes:
        number: place among the dead letters, of all runs; it stays its own.
        at: unix time in seconds at which it was given up.
        subject: where it was published.
        consumer: durable name that gave it up.
        reason: why, one line.
        size: bytes of its body.
        data: its body; less of it where a stranger's was so large that no room was left for what is said about it.
    """

    number: int
    at: float
    subject: str
    consumer: str
    reason: str
    size: int
    data: bytes

    def whole(self) -> bytes:
        """Its body.

        Raises:
            Rejected: not all of it was kept.
        """
        if len(self.data) < self.size:
            raise Rejected(f"dead letter {self.number} is kept without its end ({len(self.data)} of {self.size} bytes)")
        return self.data


class Lag(NamedTuple):
    """What a durable name has not acknowledged of a stream, in messages."""

    consumer: str
    stream: str
    messages: int


@dataclass(frozen=True, slots=True)
class Load:
    """How busy the bus is.

    Attributes:
        lags: of the consumers of this connection's run.
        streams: messages and bytes of each, of all runs.
    """

    lags: list[Lag]
    streams: dict[str, tuple[int, int]]


class Bus(Protocol):
    """At-least-once delivery of messages with deterministic ids; effects are made exactly-once by idempotent handlers."""

    async def publish(self, message: Message) -> None:
        """Returns when the message is durable. A message whose id was seen before (10 minutes) is dropped.

        Raises:
            BusUnavailable: no acknowledgement within the time that was set.
            BusRefused: this user may not publish that.
            Rejected: the message is too large for the bus.
        """
        ...

    async def consume(
        self, durable: str, types: Sequence[type[Message]], handler: Handler, *, run_id: str = "*", concurrency: int = 1
    ) -> None:
        """Starts handling messages in the background; consumers of one durable name share the work, restarts go on where they
        stopped. Commands go to one durable only. Returns when the subscription stands."""
        ...

    async def keep_strays(self) -> None:
        """From now on a message on a subject of ours that no message type has becomes a dead letter, of every run if it names
        none, and is acknowledged then. Of several connections that do so one keeps it; as long as none does, its publisher is
        told that nobody takes it. Returns when that stands."""
        ...

    async def backlog(self, durable: str, types: Sequence[type[Message]], *, run_id: str = "*") -> int:
        """Messages that a durable name (as given to `consume`) has not acknowledged, those that are still to come included.

        Raises:
            BusUnavailable: the bus does not answer.
        """
        ...

    async def load(self) -> Load:
        """How busy the bus is, and who lags behind.

        Raises:
            BusUnavailable: the bus does not answer.
        """
        ...

    def tap(self, pattern: str) -> AsyncIterator[Tapped]:
        """Messages as they are published, from the first step of the iteration on, without acknowledgement; a message that is
        published twice is seen twice. `pattern` is a NATS subject pattern.

        Raises:
            BusRefused: this user may not listen to that.
        """
        ...

    def history(self, pattern: str, since: float) -> AsyncIterator[tuple[float, Tapped]]:
        """Messages that match a pattern and are kept by now, with the unix time at which each was taken, oldest first, since
        such a time. Commands are kept only until they are handled.

        Raises:
            BusUnavailable: the bus does not answer.
        """
        ...

    def replay(self, kind: type[Message], run_id: str, key: str, after: int) -> AsyncIterator[tuple[int, Message]]:
        """Events of one type and one key (`Message.key`, `*` for all) that are durable by now, oldest first, each with its
        position in the stream; those up to the position `after` are left out (0: none), and so is what is no such event.

        Raises:
            BusUnavailable: the bus does not answer.
        """
        ...

    async def keys(self, kind: type[Message], run_id: str, key: str = "*") -> set[str]:
        """Keys of the events of one type that are durable by now, without reading them: 100,000 at most.

        Raises:
            BusUnavailable: the bus does not answer.
        """
        ...

    async def trim(self) -> None:
        """Makes room for events where it is getting short: the oldest go that every consumer has acknowledged, of whatever
        run. What a consumer has not acknowledged stays; a bus that is full of it takes nothing more.

        Raises:
            BusUnavailable: the bus does not answer.
        """
        ...

    async def dead_letters(self) -> list[DeadLetter]:
        """What was given up, oldest first."""
        ...

    async def revive(self, letter: DeadLetter) -> None:
        """Publishes a dead letter on its subject again, under an id of its own, and then takes it out of the dead letters. All
        who listen there get it again, not only who gave it up. Doing it again changes nothing.

        Raises:
            Rejected: not all of it was kept.
            BusUnavailable: no acknowledgement within the time that was set; it is still there.
        """
        ...

    async def drop(self, letter: DeadLetter) -> None:
        """Takes a dead letter out of the dead letters. Doing it again changes nothing.

        Raises:
            BusUnavailable: the bus does not answer.
        """
        ...

    async def ping(self) -> None:
        """Returns when the bus answers.

        Raises:
            BusUnavailable: it does not within the time that was set.
        """
        ...

    async def close(self) -> None:
        """Ends consumers (a handler that runs is awaited for a moment) and connections."""
        ...
