"""The engine's reply on its way to the harness. Its last bytes are held back until `finish`, when the record is durable."""

from __future__ import annotations

import time
from typing import Protocol

from services.proxy.client import EVENTS, JSON, Client
from services.proxy.dialects.base import Dialect, Reply
from services.proxy.errors import EngineRefused, broken
from services.proxy.http import Answering
from services.proxy.recorder import Call
from services.proxy.sse import SseSplitter, event_data
from services.proxy.teacher import Chunks
from services.proxy.upstream import Engine

_DONE = b"data: [DONE]\n\n"
"""Clients wait for it: it is sent even if the engine left it out. Of an event that the engine did not end, nothing is sent."""


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
    def __init__(self, dialect: Dialect, call: Call, engine: Engine, client: Client, max_model_len: int) -> None:
        self._dialect = dialect
        self._call = call
        self._engine = engine
        self._client = client
        self._served = max_model_len

    async def _asked(self, *, stream: bool, usage: bool) -> None:
        """Asks, and once more without a limit on the reply if the served length cannot keep what the first one promises."""
        call = self._call
        prompt, parent = call.prompt, call.prompt.parent
        before = prompt.spliced.count(b",") + 1 if prompt.spliced else parent.length if parent else 0
        for left in (self._served - before, 0):
            body = call.request.body(call.turn.messages, prompt.spliced, left, stream=stream, usage=usage)
            try:
                async with self._engine.chat(body) as content:
                    await self._take(content)
                return
            except EngineRefused as e:
                limited = call.request.limit is not None and call.request.limit < left
                if e.kind != "context_length_exceeded" or not limited:
                    raise

    async def _take(self, content: Answering) -> None:
        raise NotImplementedError


class Passed(_Base):
    """The engine's own bytes, as they are: it speaks the harness's dialect."""

    _tail = b""

    async def run(self) -> Reply:
        turn = self._call.turn
        await self._asked(stream=turn.stream, usage=bool(turn.private))
        return self._call.answer.reply

    async def finish(self) -> None:
        if self._call.turn.stream:
            await self._client.send(self._tail, last=True)
        else:
            await self._client.respond(200, JSON, self._tail)

    async def _take(self, content: Answering) -> None:
        if self._call.turn.stream:
            await self._relay(content)
        else:
            self._tail = await content.read()
            self._call.answer.add_whole(self._tail)

    async def _relay(self, content: Answering) -> None:
        """Events up to the one that ends the reply are passed on; that one and what follows are held back."""
        answer, splitter, tail = self._call.answer, SseSplitter(), bytearray()
        await self._client.start(200, EVENTS, cache_control="no-cache")
        while piece := await content.next():
            events = splitter.feed(piece)
            passed = self._read(events)
            if passed:
                await self._client.send(b"".join(events[:passed]))
            tail += b"".join(events[passed:])
        if answer.finish_reason is None:
            raise broken("the engine's stream ended before its reply did")
        self._tail = bytes(tail) if _DONE.strip() in tail else bytes(tail) + _DONE

    def _read(self, events: list[bytes]) -> int:
        """Takes in events; gives how many of them come before the one that ends the reply."""
        answer, passed = self._call.answer, 0
        for event in events:
            if data := event_data(event):
                answer.add(data)
            passed += answer.finish_reason is None
        return passed


class Worded(_Base):
    """The engine's increments in the words of the harness's dialect. The engine is always asked for a stream, so that one and
    the same of its parsers reads a reply, whatever the harness asked for."""

    async def run(self) -> Reply:
        begun = self._call.begun
        self._writer = self._dialect.writer(self._call.turn, f"{begun.session_id}-{begun.seq}", int(time.time()))
        await self._asked(stream=True, usage=True)
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
            words = [self._words(event) for event in splitter.feed(piece)]
            if streamed and (now := b"".join(words)):
                await self._client.start(200, EVENTS, cache_control="no-cache")
                await self._client.send(now)

    def _words(self, event: bytes) -> bytes:
        data, answer = event_data(event), self._call.answer
        if not data:
            return b""
        first = not answer.prompt
        delta = answer.add(data)
        if not self._call.turn.stream:  # it will be worded whole
            return b""
        words = self._writer.start(answer.prompt_length) if first and answer.prompt else b""
        return words + self._writer.add(delta) if delta is not None else words


class Taught(Worded):
    """The increments of a teacher in the words of the harness's dialect. It counts the prompt's tokens only at the end."""

    async def run(self) -> Reply:
        self._started = False
        return await super().run()

    async def _asked(self, *, stream: bool, usage: bool) -> None:
        teacher = self._engine.teacher
        assert teacher is not None, "the configuration says teacher"
        self._chunks: Chunks = teacher.chunks()
        async with self._engine.chat(teacher.body(self._call.request, self._call.turn.messages)) as content:
            await self._take(content)

    def _words(self, event: bytes) -> bytes:
        data = event_data(event)
        if not data:
            return b""
        deltas = [self._call.answer.add(chunk) for chunk in self._chunks.read(data)]
        if not self._call.turn.stream:
            return b""
        words = b"" if self._started else self._writer.start(0)
        self._started = True
        return words + b"".join(self._writer.add(delta) for delta in deltas if delta is not None)
