"""The bus's twin for tests: the same promises inside one process, and nothing survives it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from shared.bus import DeadLetter, Handler, Lag, Load, Tapped
from shared.bus.client import STRAYS
from shared.bus.delivery import Consumer, check_size, replayed, revival_id, tapped
from shared.bus.strays import REASON
from shared.bus.streams import STREAMS, filters_of, is_kept, stream_of
from shared.bus.workers import GRACE_S, Workers
from shared.errors import BusUnavailable
from shared.events import Message, encode
from shared.subjects import dead_subject, kind_in, matches, pattern_of, subject_of


@dataclass(frozen=True, slots=True)
class _Delivery:
    subject: str
    data: bytes
    number: int = 1
    at: float = field(default_factory=time.time)

    def again(self) -> _Delivery:
        return _Delivery(self.subject, self.data, self.number + 1, self.at)


@dataclass(slots=True, eq=False)
class _Queue:
    """Waiting deliveries of a durable name, or what a tap has not read yet.

    Attributes:
        settled: messages that were handled or given up.
    """

    patterns: list[str]
    waiting: asyncio.Queue[_Delivery | None] = field(default_factory=asyncio.Queue)
    settled: int = 0

    def takes(self, delivery: _Delivery) -> bool:
        return any(matches(p, delivery.subject) for p in self.patterns)

    def left(self, kept: Sequence[_Delivery]) -> int:
        return sum(map(self.takes, kept)) - self.settled

    def offer(self, delivery: _Delivery) -> None:
        if self.takes(delivery):
            self.waiting.put_nowait(delivery)


@dataclass(slots=True)
class Broker:
    """What several `MemoryBus` connections share: the part of the server."""

    ids: set[str] = field(default_factory=set)
    kept: list[_Delivery] = field(default_factory=list)
    durables: dict[str, _Queue] = field(default_factory=dict)
    taps: list[_Queue] = field(default_factory=list)
    dead: list[DeadLetter] = field(default_factory=list)
    keepers: list[MemoryBus] = field(default_factory=list)
    numbers: count[int] = field(default_factory=lambda: count(1))

    def show(self, delivery: _Delivery) -> None:
        for tap in self.taps:
            tap.offer(delivery)

    def keep(self, delivery: _Delivery) -> None:
        self.kept.append(delivery)
        for queue in self.durables.values():
            queue.offer(delivery)

    def bury(self, delivery: _Delivery, consumer: str, reason: str) -> None:
        letter = DeadLetter(
            number=next(self.numbers), at=time.time(), subject=delivery.subject, consumer=consumer, reason=reason,
            size=len(delivery.data), data=delivery.data,
        )  # fmt: skip
        self.dead.append(letter)
        self.show(_Delivery(dead_subject(delivery.subject), delivery.data))

    def durable(self, name: str, patterns: list[str]) -> _Queue:
        if name not in self.durables:
            self.durables[name] = queue = _Queue(patterns)
            for delivery in self.kept:
                queue.offer(delivery)
        return self.durables[name]


class MemoryBus:
    """A connection to a `Broker`, by default to one of its own."""

    def __init__(
        self, broker: Broker | None = None, *, max_deliver: int = 6, max_payload: int = 8 * 1024 * 1024, retry_s: float = 0.01
    ) -> None:
        self.broker = broker or Broker()
        self.counts: Counter[str] = Counter()
        self.repeats: Counter[str] = Counter()
        self._max_deliver, self._max_payload, self._retry_s = max_deliver, max_payload, retry_s
        self._workers = Workers()
        self._taps: list[_Queue] = []

    async def publish(self, message: Message) -> None:
        await self.publish_raw(subject_of(message), encode(message), f"{message.run_id}/{message.event_id}")

    async def publish_raw(self, subject: str, data: bytes, message_id: str) -> None:
        """Publishes any bytes, as somebody outside the project could."""
        check_size(subject, data, self._max_payload)
        delivery = _Delivery(subject, data)
        self.broker.show(delivery)
        if not is_kept(subject.encode()):
            self._keep_stray(delivery)
        elif message_id in self.broker.ids:
            self.repeats[f"published {kind_in(subject)}"] += 1
        else:
            self.broker.ids.add(message_id)
            self.broker.keep(delivery)

    async def consume(
        self, durable: str, types: Sequence[type[Message]], handler: Handler, *, run_id: str = "*", concurrency: int = 1
    ) -> None:
        patterns = [p for ps in filters_of(types, run_id).values() for p in ps]
        queue = self.broker.durable(f"{durable}/{run_id}", patterns)
        consumer = Consumer(durable, types, handler, self._max_deliver, self._retry_s)
        for _ in range(concurrency):
            self._workers.start(self._work(queue, consumer))

    async def keep_strays(self) -> None:
        self.broker.keepers.append(self)

    def _keep_stray(self, delivery: _Delivery) -> None:
        if not self.broker.keepers:
            raise BusUnavailable(f"nobody takes {delivery.subject}")
        self.broker.bury(delivery, STRAYS, REASON)
        self.broker.keepers[0].counts["dead"] += 1

    async def backlog(self, durable: str, types: Sequence[type[Message]], *, run_id: str = "*") -> int:
        return self.broker.durables[f"{durable}/{run_id}"].left(self.broker.kept)

    async def load(self) -> Load:
        streams = {s.name: [d for d in self.broker.kept if stream_of(d.subject) is s] for s in STREAMS}
        lags = [
            Lag(name.partition("/")[0], stream_of(queue.patterns[0]).name, queue.left(self.broker.kept))
            for name, queue in self.broker.durables.items()
        ]
        return Load(lags, {name: (len(kept), sum(len(d.data) for d in kept)) for name, kept in streams.items()})

    async def _work(self, queue: _Queue, consumer: Consumer) -> None:
        while not self._workers.stopping and (delivery := await queue.waiting.get()):
            with self._workers.busy():
                await self._handle(delivery, queue, consumer)

    async def _handle(self, delivery: _Delivery, queue: _Queue, consumer: Consumer) -> None:
        if delivery.number > 1:
            self.repeats[f"delivered {kind_in(delivery.subject)}"] += 1
        try:
            outcome = await consumer.deliver(delivery.subject, delivery.data, delivery.number)
        except asyncio.CancelledError:
            queue.waiting.put_nowait(delivery.again())
            raise
        if outcome.kind == "later":
            asyncio.get_running_loop().call_later(outcome.delay_s, queue.waiting.put_nowait, delivery.again())
        elif outcome.kind == "dead":
            self.broker.bury(delivery, consumer.durable, outcome.reason)
        queue.settled += outcome.kind != "later"
        self.counts[outcome.kind] += 1

    async def tap(self, pattern: str) -> AsyncIterator[Tapped]:
        queue = _Queue([pattern])
        self.broker.taps.append(queue)
        self._taps.append(queue)
        try:
            while delivery := await queue.waiting.get():
                yield tapped(delivery.subject, delivery.data)
        finally:
            self.broker.taps.remove(queue)

    async def history(self, pattern: str, since: float) -> AsyncIterator[tuple[float, Tapped]]:
        kept = [(d.at, d.subject, d.data) for d in self.broker.kept]
        kept += [(letter.at, dead_subject(letter.subject), letter.data) for letter in self.broker.dead]
        for at, subject, data in sorted(kept, key=lambda k: k[0]):
            if at >= since and matches(pattern, subject):
                yield at, tapped(subject, data)

    async def replay(self, kind: type[Message], run_id: str, key: str, after: int) -> AsyncIterator[tuple[int, Message]]:
        subject = pattern_of(kind, run_id, key)
        for position, delivery in enumerate(list(self.broker.kept), start=1):
            if position <= after or not matches(subject, delivery.subject):
                continue
            if message := replayed(delivery.subject, delivery.data, kind):
                yield position, message

    async def keys(self, kind: type[Message], run_id: str, key: str = "*") -> set[str]:
        subject = pattern_of(kind, run_id, key)
        return {d.subject.rpartition(".")[2] for d in self.broker.kept if matches(subject, d.subject)}

    async def trim(self) -> None:
        """There is always room."""

    async def dead_letters(self) -> list[DeadLetter]:
        return list(self.broker.dead)

    async def revive(self, letter: DeadLetter) -> None:
        await self.publish_raw(letter.subject, letter.whole(), revival_id(letter))
        await self.drop(letter)

    async def drop(self, letter: DeadLetter) -> None:
        self.broker.dead = [kept for kept in self.broker.dead if kept.number != letter.number]

    async def ping(self) -> None:
        """Always answers."""

    async def close(self) -> None:
        await self._workers.stop(GRACE_S)
        if self in self.broker.keepers:
            self.broker.keepers.remove(self)
        for queue in self._taps:
            queue.waiting.put_nowait(None)
