"""The bus on NATS JetStream."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial

import nats.errors
from nats.aio.msg import Msg
from nats.js import api
from nats.js.errors import BadRequestError, NotFoundError

from shared.bus import DeadLetter, Handler, Lag, Load, Tapped
from shared.bus.acks import Ack
from shared.bus.delivery import PAYLOAD_MARGIN, Consumer, Outcome, check_size, replayed, revival_id, tapped
from shared.bus.letters import headers_of, letter_of, taken_at
from shared.bus.link import Link
from shared.bus.order import in_order
from shared.bus.pulls import Pull
from shared.bus.rights import durable_name
from shared.bus.strays import Strays
from shared.bus.streams import DEAD_LETTERS, MAX_AGE_S, STREAMS, Stream, filters_of, stream_of
from shared.bus.trim import backlog, first_to_keep
from shared.bus.workers import GRACE_S, Workers
from shared.config import BusConfig
from shared.errors import ConfigError, ForgeError
from shared.events import Message, encode
from shared.ids import check_id
from shared.subjects import DEAD_OF_NO_RUN, dead_subject, kind_in, pattern_of, subject_of, tap_pattern
from shared.tally import TELL_S, Tally
from shared.trace.context import HEADER
from shared.trace.tracer import Tracer

log = logging.getLogger(__name__)

_RETRY_S = 0.2  # delay after the first failed delivery
_MSG_ID = "Nats-Msg-Id"
_NO_SUCH_MESSAGE = 10043  # the server's code


def _nobody(message: Message) -> None:
    """Nobody counts."""


async def connect_nats(
    config: BusConfig, run_id: str, user: str, published: Callable[[Message], None] = _nobody, tracer: Tracer | None = None
) -> NatsBus:
    """A connection whose streams stand.

    Args:
        config: where, with which limits, and the folder with the user's key.
        run_id: whose dead letters `dead_letters` lists; `*` lists all.
        user: one of `shared.keys.USERS`; `shared.bus.rights` says what it may do.
        published: told of every message that the bus took and did not have.
        tracer: told of them, too, and gives messages their trace context; None without traces.

    Raises:
        BusUnavailable: no server answered in `config.timeout_s`, it does not know the key, or it runs without JetStream.
        BusRefused: the key is another user's.
        ConfigError: the key cannot be read.
    """
    link = Link(config, f"openforge {user} {run_id}", user)
    try:
        await link.open()
    except BaseException:
        await link.close()
        raise
    return NatsBus(link, config, run_id, published, tracer)


class NatsBus:
    """The bus behind a link. Use `connect_nats`.

    Attributes:
        counts: messages that its consumers settled: `handled`, `later` (to be delivered again), `dead`, strays included.
        repeats: by type, what it `published` although the bus had it, and what it was `delivered` again.
    """

    def __init__(
        self, link: Link, config: BusConfig, run_id: str, published: Callable[[Message], None] = _nobody,
        tracer: Tracer | None = None,
    ) -> None:  # fmt: skip
        self._tallies = Tally("messages"), Tally("messages that came again")
        self.counts, self.repeats = (tally.counts for tally in self._tallies)
        self._link, self._config, self._run_id, self._published = link, config, run_id, published
        self._tracer = tracer
        self._workers = Workers()
        self._workers.start(self._tell())

    async def publish(self, message: Message) -> None:
        trace = self._tracer.header(message) if self._tracer else ""
        headers = {HEADER: trace} if trace else {}
        ack = await self.publish_raw(subject_of(message), encode(message), f"{message.run_id}/{message.event_id}", **headers)
        if not ack.duplicate:
            self._published(message)
            if self._tracer:
                self._tracer.published(message)

    async def publish_raw(self, subject: str, data: bytes, message_id: str, **headers: str) -> Ack:
        """Publishes any bytes on a subject, once for an id; raises as `publish` does."""
        check_size(subject, data, self._link.max_payload)  # one over the server's limit would close the client for good
        headers[_MSG_ID] = message_id
        try:
            ack = await self._link.acks.publish(subject, data, headers)  # nearly always; the rest is for when it fails
        except nats.errors.Error:
            ack = await self._link.retried(f"publish {subject}", partial(self._link.acks.publish, subject, data, headers))
        if ack.duplicate:
            self.repeats[f"published {kind_in(subject)}"] += 1
        return ack

    async def consume(
        self, durable: str, types: Sequence[type[Message]], handler: Handler, *, run_id: str = "*", concurrency: int = 1
    ) -> None:
        """As the port says. Raises ConfigError when another durable already takes such commands."""
        name = _durable_name(durable, run_id)
        consumer = Consumer(name, types, handler, self._config.max_deliver, _RETRY_S)
        slots = asyncio.Semaphore(concurrency)
        for stream, filters in filters_of(types, run_id).items():
            try:
                await self._link.retried(f"make the consumer {name}", partial(self._ensure_consumer, stream, name, filters))
            except BadRequestError as e:
                raise ConfigError(f"{stream.name} refuses the consumer {name}: {e.description}") from e
            handle = partial(self._handle, consumer=consumer, slots=slots)
            client, ack_wait_s = self._link.client, self._config.ack_wait_s
            await Pull(client, stream.name, name, concurrency, handle, self._workers, ack_wait_s).open()

    async def keep_strays(self) -> None:
        await Strays(self._link, self._keep_letter, self.counts).open()

    async def backlog(self, durable: str, types: Sequence[type[Message]], *, run_id: str = "*") -> int:
        name, left = _durable_name(durable, run_id), 0
        for stream in filters_of(types, run_id):
            ask = partial(self._link.js.consumer_info, stream.name, name)
            left += backlog(await self._link.retried(f"tell of the consumer {name}", ask))
        return left

    async def tap(self, pattern: str) -> AsyncIterator[Tapped]:
        subscription = await self._link.subscribe(pattern)
        try:
            async for message in subscription.messages:
                yield tapped(message.subject, message.data)
        finally:
            if not self._link.client.is_closed:
                await subscription.unsubscribe()

    async def history(self, pattern: str, since: float) -> AsyncIterator[tuple[float, Tapped]]:
        async for at, kept in in_order([self._since(stream, pattern, since) for stream in STREAMS]):
            yield at, tapped(kept.subject or "", kept.data or b"")

    async def replay(self, kind: type[Message], run_id: str, key: str, after: int) -> AsyncIterator[tuple[int, Message]]:
        subject = pattern_of(kind, run_id, key)
        async for found in self._kept(stream_of(subject), subject, after):
            if message := replayed(found.subject or "", found.data or b"", kind):
                yield int(found.seq or 0), message

    async def keys(self, kind: type[Message], run_id: str, key: str = "*") -> set[str]:
        subject = pattern_of(kind, run_id, key)
        look = partial(self._link.js.stream_info, stream_of(subject).name, subject)
        found = await self._link.retried(f"list {subject}", look)
        return {name.rpartition(".")[2] for name in found.state.subjects or {}}

    async def load(self) -> Load:
        lags, sizes = [], {}
        for stream in STREAMS:
            state = (await self._link.retried(f"tell of {stream.name}", partial(self._link.js.stream_info, stream.name))).state
            sizes[stream.name] = (state.messages, state.bytes)
            for consumer in await self._link.retried(f"tell who reads {stream.name}", partial(self._consumers, stream)):
                name = (consumer.name or "").removesuffix(f"-{self._run_id}")
                if name != consumer.name or self._run_id == "*":
                    lags.append(Lag(name, stream.name, backlog(consumer)))
        return Load(lags, sizes)

    async def trim(self) -> None:
        for stream in STREAMS:
            if stream.trimmed:
                await self._link.retried(f"trim {stream.name}", partial(self._trim, stream))

    async def dead_letters(self) -> list[DeadLetter]:
        patterns = (dead_subject(tap_pattern("", self._run_id)), *DEAD_OF_NO_RUN)
        letters = [letter_of(kept) for p in patterns async for kept in self._kept(DEAD_LETTERS, p, 0)]
        return sorted(letters, key=lambda letter: letter.number)

    async def revive(self, letter: DeadLetter) -> None:
        await self.publish_raw(letter.subject, letter.whole(), revival_id(letter))
        await self.drop(letter)

    async def drop(self, letter: DeadLetter) -> None:
        drop = partial(self._link.js.delete_msg, DEAD_LETTERS.name, letter.number)
        try:
            await self._link.retried(f"delete dead letter {letter.number}", drop)
        except BadRequestError as e:
            if e.err_code != _NO_SUCH_MESSAGE:
                raise

    async def ping(self) -> None:
        await self._link.retried("answer", self._link.js.account_info)

    async def close(self) -> None:
        await self._workers.stop(GRACE_S)
        await self._link.close()
        for tally in self._tallies:
            tally.tell()

    async def _handle(self, message: Msg, consumer: Consumer, slots: asyncio.Semaphore) -> None:
        delivery = message.metadata.num_delivered
        if delivery > 1:
            self.repeats[f"delivered {kind_in(message.subject)}"] += 1
        seen = partial(self._tracer.delivered, header=(message.headers or {}).get(HEADER, "")) if self._tracer else _nobody
        async with slots:
            outcome = await consumer.deliver(message.subject, message.data, delivery, seen)
        try:
            await self._settle(message, consumer.durable, outcome)
            self.counts[outcome.kind] += 1
        except (nats.errors.Error, ForgeError) as e:
            log.warning("%s could not settle a message, it will come again: %s", consumer.durable, e)

    async def _settle(self, message: Msg, durable: str, outcome: Outcome) -> None:
        match outcome.kind:
            case "handled":
                await message.ack()
            case "later":
                await message.nak(outcome.delay_s)
            case "dead":
                await self._bury(message, durable, outcome.reason)
                await message.term()

    async def _bury(self, message: Msg, durable: str, reason: str) -> None:
        at = message.metadata
        await self._keep_letter(message.subject, message.data, durable, reason, f"{at.stream}/{durable}/{at.sequence.stream}")

    async def _keep_letter(self, subject: str, data: bytes, consumer: str, reason: str, letter_id: str) -> Ack:
        body = data[: self._link.max_payload - PAYLOAD_MARGIN]  # somebody else's may be longer than ours
        headers = headers_of(consumer, reason, len(data))
        return await self.publish_raw(dead_subject(subject), body, letter_id, **headers)

    async def _tell(self) -> None:
        while True:
            await asyncio.sleep(TELL_S)
            for tally in self._tallies:
                tally.tell()

    async def _ensure_consumer(self, stream: Stream, name: str, filters: list[str]) -> None:
        config = api.ConsumerConfig(
            name=name,
            durable_name=name,
            ack_policy=api.AckPolicy.EXPLICIT,
            ack_wait=self._config.ack_wait_s,
            max_deliver=-1,  # we count ourselves: the server would stop delivering without a word to anybody
            filter_subjects=filters,
            inactive_threshold=MAX_AGE_S,
        )
        await self._link.js.add_consumer(stream.name, config)

    async def _trim(self, stream: Stream) -> None:
        state = (await self._link.js.stream_info(stream.name)).state
        keep = first_to_keep(state, self._config.max_bytes, await self._consumers(stream))
        if keep is not None:
            log.info("%s has %d bytes: all before message %d goes", stream.name, state.bytes, keep)
            await self._link.js.purge_stream(stream.name, seq=keep)

    async def _consumers(self, stream: Stream) -> list[api.ConsumerInfo]:
        consumers: list[api.ConsumerInfo] = []
        while page := await self._link.js.consumers_info(stream.name, offset=len(consumers)):
            consumers += page
        return consumers

    async def _since(self, stream: Stream, pattern: str, since: float) -> AsyncIterator[tuple[float, api.RawStreamMsg]]:
        """What a stream has on a pattern since a time."""
        look = partial(self._link.js.stream_info, stream.name)
        state = (await self._link.retried(f"tell of {stream.name}", look)).state
        before, last = state.first_seq - 1, state.last_seq  # a message that is too old, or none; the newest
        while before < last:
            middle = (before + last + 1) // 2
            at = await anext((taken_at(kept) async for kept in self._kept(stream, ">", middle - 1)), since)
            before, last = (middle, last) if at < since else (before, middle - 1)
        async for kept in self._kept(stream, pattern, before):
            yield taken_at(kept), kept

    async def _kept(self, stream: Stream, subject: str, after: int) -> AsyncIterator[api.RawStreamMsg]:
        """What a stream has on a subject (or pattern) behind a position."""
        with contextlib.suppress(NotFoundError):  # how the server says that there is no more
            while True:
                get = partial(self._link.js.get_msg, stream.name, seq=after + 1, subject=subject, next=True)
                found = await self._link.retried(f"read {subject}", get)
                yield found
                after = int(found.seq or 0)


def _durable_name(durable: str, run_id: str) -> str:
    return check_id(durable_name(durable, run_id), "durable name")
