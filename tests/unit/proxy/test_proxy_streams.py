"""Streams of the engine that are cut anywhere, worded oddly or broken: a call is whole, cut or errored, and never misread."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

import aiohttp
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from shared.packing import unpack_ids
from tests.engine import bytes_tokenizer as tokenizer
from tests.engine.replies import Reply
from tests.engine.scripted import ScriptedEngine
from tests.unit.proxy.wires import ENDS, ROUTES, asked, route
from tests.unit.proxy.world import World, living_world

TEXT = "wö ☃ 日"
Ending = Literal["whole", "cut", "errored", "lost"]
fuzzed = settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.reuse, Phase.generate])


@dataclass
class Pieces:
    """An engine that answers every call with given bytes, cut into pieces, and then closes."""

    pieces: list[bytes] = field(default_factory=list)
    url: str = ""

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.url = "http://{}:{}".format(*server.sockets[0].getsockname())
        async with server:
            yield

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(line.split(b":")[1] for line in head.lower().splitlines() if line.startswith(b"content-length"))
        await reader.readexactly(int(length))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        for piece in self.pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        writer.close()


def events(reply: Reply) -> list[bytes]:
    """The events of a stream as vLLM words them, the last with tokens being the last."""
    return [json.dumps(chunk).encode() for chunk in reply.chunks()]


def a_reply() -> Reply:
    completion = [*tokenizer.encode(TEXT), tokenizer.END]
    return Reply(1, "policy", tokenizer.render([{"role": "user", "content": "hi"}]), completion, "stop", TEXT, [])


@dataclass(frozen=True, repr=False)
class Stream:
    """Bytes of a stream, where they are cut, and what must become of the call."""

    data: bytes
    cuts: list[int]
    expected: Ending

    def __repr__(self) -> str:
        return f"{self.expected}: {self.data[-400:]!r}"

    def pieces(self) -> list[bytes]:
        edges = sorted({0, len(self.data), *(cut % (len(self.data) + 1) for cut in self.cuts)})
        return [self.data[a:b] for a, b in pairwise(edges)]


SPOILT = [
    b'{"choices":[{"delta":{"content":"x"},"token_ids":["x"]}]}', b'{"choices":[{"delta":{"content":7}}]}', b"{not json",
    b'{"choices":[{"delta":{"content":"\xff\xfe"}}]}', b'{"choices":7}',
    b'{"choices":[{"delta":{"content":"x"},"token_ids":[1]}]}', b"[" * 5000,
]  # fmt: skip
"""Events that cannot be recorded exactly: not JSON, of a wrong shape, tokens without log-probs."""


@st.composite
def streams(draw: st.DrawFn) -> Stream:
    said = events(a_reply())
    end, blank = draw(st.sampled_from([(b"\n", b"\n"), (b"\r\n", b"\r\n"), (b"\n", b"\r\n")]))
    kind = draw(st.sampled_from(["odd", "odd", "broken off", "spoilt", "failed"]))
    expected: Ending = "whole"
    if kind == "spoilt":
        said.insert(draw(st.integers(1, len(said) - 1)), draw(st.sampled_from(SPOILT)))
        expected = "lost"
    if kind == "failed":
        at = draw(st.integers(0, len(said) - 1))
        said.insert(at, b'{"error":{"message":"failed"}}')
        expected = "cut" if at > 1 else "errored"
    worded = [
        draw(st.sampled_from([b"data: ", b"data:", b"event: x\ndata: ", b"id: 1\ndata: "])) + one + end + blank for one in said
    ]
    if kind == "broken off":
        kept = draw(st.integers(0, len(worded) - 1))
        expected = "cut" if kept > 1 else "errored"
        worded = [*worded[:kept], worded[kept][: draw(st.integers(0, len(worded[kept]) - len(end + blank)))]]
    else:
        at = draw(st.integers(0, len(worded)))
        worded.insert(at, draw(st.sampled_from([b"", b": ping" + end + blank, end, b"retry: 5" + end + blank])))
        worded.append(draw(st.sampled_from([b"", b": bye" + end + blank, b'data: {"choices":[]}' + end + blank])))
        worded.append(draw(st.sampled_from([b"", b"data: [DONE]" + end + blank, b"data: [DONE]", b"data: {"])))
    return Stream(b"".join(worded), draw(st.lists(st.integers(0, 100_000), max_size=60)), expected)


@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")  # what it prints on failure is long
@fuzzed
@given(st.lists(st.tuples(st.sampled_from(sorted(ROUTES)), streams()), min_size=12, max_size=12))
def test_a_stream_however_broken_is_whole_cut_errored_or_lost_and_never_misread(sent: list[tuple[str, Stream]]) -> None:
    asyncio.run(_play(sent))


async def _play(sent: list[tuple[str, Stream]]) -> None:
    upstream = Pieces()
    async with upstream.serving(), living_world(ScriptedEngine(), upstream.url) as world:
        base = await world.open()
        for api, stream in sent:
            upstream.pieces = stream.pieces()
            async with asyncio.timeout(5):
                answer = await _asked(world, base, api)
            whole = ENDS[api] in answer
            assert whole == (stream.expected == "whole"), (api, stream, answer)
        seal = await world.seal()
    found = dict.fromkeys(range(1, seal["calls"] + 1), "whole")
    found |= {seq: state for state in ("cut", "errored", "lost") for seq in seal[state]}
    for (api, stream), state in zip(sent, found.values(), strict=True):
        assert state == stream.expected, (api, stream)
    ids = a_reply().completion
    for record in world.records:
        sampled = unpack_ids(record.completion)
        assert (record.delivery == "sent") == (found[record.seq] == "whole")
        assert sampled == ids if found[record.seq] == "whole" else sampled == ids[: len(sampled)] != []
        assert TEXT.startswith(record.reply["content"].rstrip("\ufffd"))
    assert {r.seq for r in world.records} == {seq for seq, state in found.items() if state in ("whole", "cut")}


async def _asked(world: World, base: str, api: str) -> bytes:
    """All that came of a streamed call."""
    seen = b""
    try:
        async with world.http.post(base + route(api, stream=True), json=asked(api, "hi", stream=True)) as response:
            async for piece in response.content.iter_any():
                seen += piece
    except aiohttp.ClientPayloadError:
        pass
    return seen
