"""A fake vLLM that costs next to nothing: a bare protocol that answers with bytes made beforehand.

It speaks as much of vLLM as a recording gateway uses: chat (whole and streamed, with token ids and log-probs, the prompt given
as text or as `kv_transfer_params.prompt_token_ids`, which is echoed), render, tokenize, models and health. `/spliced` tells how
many chat requests came with ids.

    python -m tests.bench.upstream PORT
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from typing import cast

import msgspec
import uvloop

from tests.bench.bodies import marked
from tests.bench.replies import prompt_ids, rendered, stream, whole

_HEAD_END = b"\r\n\r\n"
_LENGTH = b"content-length:"
_IDS = b'"prompt_token_ids":['
_MODEL = {"id": "policy", "object": "model", "max_model_len": 131_072}


class FakeEngine(asyncio.Protocol):
    """One connection; requests come one after another.

    Args:
        counts: counts chat requests of all connections, `spliced` of them with ids.
    """

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head_end = self._buffer.find(_HEAD_END)
        if head_end < 0 or self._transport is None:
            return
        head, start = bytes(self._buffer[:head_end]), head_end + len(_HEAD_END)
        end = start + _body_length(head)
        if len(self._buffer) >= end:
            request = bytes(self._buffer[start:end])
            del self._buffer[:end]
            self._transport.write(answer(head.split(b" ", 2)[1], request, self._counts))


def answer(path: bytes, request: bytes, counts: Counter[str]) -> bytes:
    """The HTTP response to one request."""
    match path:
        case b"/v1/chat/completions":
            return _chat(request, counts)
        case b"/v1/chat/completions/render":
            return _response(b'{"token_ids":[%b]}' % (_given(request) or _rendered(request)))
        case b"/tokenize":
            return _response(b'{"tokens":[%b]}' % _rendered(request))
        case b"/v1/models":
            return _response(msgspec.json.encode({"object": "list", "data": [_MODEL]}))
        case b"/spliced":
            return _response(b"%d" % counts["spliced"])
        case b"/health":
            return _response(b"")
    return _response(b'{"error":"no such route"}', b"404 Not Found")


def _chat(request: bytes, counts: Counter[str]) -> bytes:
    given = _given(request)
    counts["spliced"] += bool(given)
    prompt = given or prompt_ids(*marked(request))
    if b'"stream":true' not in request and b'"stream": true' not in request:
        return _response(whole(prompt))
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
    return head + stream(prompt, usage=b'"include_usage"' in request)


def _given(request: bytes) -> bytes:
    """The token ids in a request, with commas between; empty if there are none."""
    at = request.find(_IDS)
    return request[at + len(_IDS) : request.index(b"]", at)] if at >= 0 else b""


def _rendered(request: bytes) -> bytes:
    generation = b'"add_generation_prompt":false' not in request
    return b",".join(b"%d" % i for i in rendered(replied=b'"assistant"' in request, generation=generation))


def _body_length(head: bytes) -> int:
    lower = head.lower()
    at = lower.find(_LENGTH)
    return int(lower[at + len(_LENGTH) :].split(b"\r\n", 1)[0]) if at >= 0 else 0


def _response(body: bytes, status: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (status, len(body), body)


async def serve(port: int) -> None:
    """Serves on a port of 127.0.0.1 until the process is ended."""
    counts = Counter[str]()
    server = await asyncio.get_running_loop().create_server(lambda: FakeEngine(counts), "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
