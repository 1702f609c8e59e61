"""The engine's reply on its way to the harness. Its last bytes are held back until `finish`, when the record is durable."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from services.proxy.answer import Said
from services.proxy.client import EVENTS, JSON, Client
from services.proxy.dialects.base import Dialect, Reply
from services.proxy.errors import EngineRefused, broken
from services.proxy.http import Answering
from services.proxy.recorder import Call
from services.proxy.sse import SseSplitter, data_of, start_of_last

_DONE = b"data: [DONE]\n\n"
"""Clients wait for it: it is sent even if the engine left it out. Of an event that the engine did not end, nothing is sent."""

_Take = Callable[[Answering], Awaitable[None]]


class Exchange(Protocol):
    """One reply."""

    async def run(self) -> Reply:
        """Asks the engine and sends on what comes, but for the end.

        Raises:
            EngineRefused, Refused: the engine turned the call down or failed.
            FidelityError: its answer cannot be read.
        """
        ...

    async def finish(self) -> None:
        """Sends the end."""
        ...


class _Base:
    def __init__(self, dialect: Dialect, call: Call, client: Client, max_model_len: int) -> None:
        self._dialect = dialect
        self._call = call
        self._client = client
        self._served = max_model_len

    async def _ask(self, take: _Take, *, stream: bool, usage: bool) -> None:
        """Asks, and once more without a limit on the reply if the served length cannot keep what the first one promises."""
        call = self._call
        prompt = call.prompt
        for left in (self._served - prompt.length, 0):
            body = call.request.body(call.turn.messages, prompt.spliced, left, stream=stream, usage=usage)
            try:
                await call.engine.chat(body, take)
                return
            except EngineRefused as e:
                limited = call.request.limit is not None and call.request.limit < left
                if e.kind != "context_length_exceeded" or not limited:
                    raise


class Passed(_Base):
    """The engine's own bytes, as they are: it speaks the harness's dialect."""

    _tail = b""

    async def run(self) -> Reply:
        turn = self._call.turn
        await self._ask(self._relay if turn.stream else self._keep, stream=turn.stream, usage=bool(turn.private))
        return self._call.answer.reply

    async def finish(self) -> None:
        if self._call.turn.stream:
            await self._client.send(self._tail, last=True)
        else:
            await self._client.respond(200, JSON, self._tail)

    async def _keep(self, content: Answering) -> None:
        self._tail = await content.read()
        self._call.answer.add_whole(self._tail)

    async def _relay(self, content: Answering) -> None:
        """Events up to the one that ends the reply are passed on; that one and what follows are held back."""
        answer, splitter, tail = self._call.answer, SseSplitter(), b""
        await self._client.start(200, EVENTS, cache_control="no-cache")
        while piece := await content.next():
            events, ended = splitter.feed(piece), answer.finish_reason is not None
            answer.feed(events)
            passed = self._passed(events) if not ended else 0
            tail += events[passed:]
            if passed:
                await self._client.send(events[:passed])
        if answer.finish_reason is None:
            raise broken("the engine's stream ended before its reply did")
        self._tail = tail if _DONE.strip() in tail else tail + _DONE

    def _passed(self, events: bytes) -> int:
        """Bytes of events that come before the one that ends the reply."""
        answer = self._call.answer
        return len(events) if answer.finish_reason is None else start_of_last(events, answer.closing)


class Worded(_Base):
    """The engine's increments in the words of the harness's dialect. The engine is always asked for a stream, so that one and
    the same of its parsers reads a reply, whatever the harness asked for."""

    _started = False

    async def run(self) -> Reply:
        begun = self._call.begun
        self._writer = self._dialect.writer(self._call.turn, f"{begun.session_id}-{begun.seq}", int(time.time()))
        await self._ask(self._take, stream=True, usage=True)
        if self._call.answer.finish_reason is None:
            raise broken("the engine's stream ended before its reply did")
        return self._call.answer.reply

    async def finish(self) -> None:
        reply = self._call.answer.reply
        if self._call.turn.stream:
            await self._client.start(200, EVENTS, cache_control="no-cache")  # a dialect may have had nothing to say until now
            await self._client.send(self._writer.finish(reply), last=True)
        else:
            await self._client.respond(200, JSON, self._writer.whole(reply))

    async def _take(self, content: Answering) -> None:
        splitter, streamed = SseSplitter(), self._call.turn.stream
        while piece := await content.next():
            if events := splitter.feed(piece):
                said = self._read(events)
                if streamed and (words := self._words(said)):
                    await self._client.start(200, EVENTS, cache_control="no-cache")
                    await self._client.send(words)

    def _read(self, events: bytes) -> list[Said]:
        return self._call.answer.feed(events)

    def _words(self, said: list[Said]) -> bytes:
        opening = b"" if self._started else self._writer.start(self._call.answer.prompt_length)
        self._started = True
        return opening + b"".join([self._writer.add(delta) for one in said if (delta := one.delta) is not None])


class Taught(Worded):
    """The increments of a teacher in the words of the harness's dialect. It counts the prompt's tokens only at the end."""

    async def _ask(self, take: _Take, *, stream: bool, usage: bool) -> None:
        teacher = self._call.engine.teacher
        assert teacher is not None, "the configuration says teacher"
        self._chunks = teacher.chunks()
        await self._call.engine.chat(teacher.body(self._call.request, self._call.turn.messages), take)

    def _read(self, events: bytes) -> list[Said]:
        return self._call.answer.add([chunk for one in data_of(events) for chunk in self._chunks.read(one)])
