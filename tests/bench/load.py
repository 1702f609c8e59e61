"""The load: conversations over raw connections, in a process of its own, so cheap that it is never what limits.

python -m tests.bench.load < spec.json > result.json
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Iterator
from typing import cast

import msgspec
import uvloop

from tests.bench.bodies import Api, body
from tests.bench.replies import REPLY

Calls = list[tuple[int, int]]
"""(tokens of the first prompt, turn) of calls that are made one after another; see `replies`."""

_HEAD_END = b"\r\n\r\n"
_LAST = REPLY.rsplit(" ", 1)[1].encode()
"""The last word of every reply that is whole, in whatever dialect."""


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What to do.

    Attributes:
        port: of the server on 127.0.0.1.
        paths: request path of every session.
        calls: of each session.
        api: what is spoken.
        stream: ask for streams.
        connections: sessions that run at once.
    """

    port: int
    paths: list[str]
    calls: Calls
    api: Api = "chat"
    stream: bool = False
    connections: int = 16


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it.

    Attributes:
        calls: that were answered whole.
        failed: the others.
        seconds: that all of it took.
        p50_ms: median time of a call, from its first byte sent to its last byte received.
        reason: of the first failure.
    """

    calls: int
    failed: int
    seconds: float
    p50_ms: float
    reason: str = ""


class _Connection(asyncio.Protocol):
    """Sends a request, gathers its response."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._end = -1
        self._waiting: asyncio.Future[bytes] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._end < 0:
            self._read_head()
        chunked = self._end == 0 and self._buffer.endswith(b"\r\n0\r\n\r\n")
        if (chunked or 0 < self._end <= len(self._buffer)) and self._waiting and not self._waiting.done():
            self._waiting.set_result(bytes(self._buffer))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._waiting and not self._waiting.done():
            self._waiting.set_exception(exc or ConnectionResetError("the server hung up"))

    async def ask(self, request: bytes) -> bytes:
        """The whole response, head and all. Raises OSError when the connection breaks."""
        assert self._transport is not None
        self._buffer.clear()
        self._end = -1
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._waiting

    def close(self) -> None:
        if self._transport:
            self._transport.close()

    def _read_head(self) -> None:
        """Finds where the response ends: a position, 0 for a chunked one, -1 while its head is not whole."""
        at = self._buffer.find(_HEAD_END)
        if at < 0:
            return
        _, found, rest = bytes(self._buffer[:at]).lower().partition(b"content-length:")
        self._end = at + len(_HEAD_END) + int(rest.split(b"\r\n", 1)[0]) if found else 0


class _Run:
    def __init__(self, load: Load) -> None:
        self._load = load
        self._paths: Iterator[str] = iter(load.paths)
        self._bodies = [body(load.api, base, turn, stream=load.stream) for base, turn in load.calls]
        self._times: list[float] = []
        self._failed = 0
        self._reason = ""

    async def run(self) -> Result:
        started = time.perf_counter()
        await asyncio.gather(*(self._work() for _ in range(self._load.connections)))
        seconds = time.perf_counter() - started
        p50 = statistics.median(self._times) * 1e3 if self._times else 0.0
        return Result(calls=len(self._times), failed=self._failed, seconds=seconds, p50_ms=p50, reason=self._reason)

    async def _work(self) -> None:
        _, connection = await asyncio.get_running_loop().create_connection(_Connection, "127.0.0.1", self._load.port)
        try:
            for path in self._paths:
                for sent in self._bodies:
                    await self._call(connection, path, sent)
        except OSError as e:
            self._failed, self._reason = self._failed + 1, self._reason or str(e)
        finally:
            connection.close()

    async def _call(self, connection: _Connection, path: str, sent: bytes) -> None:
        head = f"POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: {len(sent)}\r\n\r\n"
        started = time.perf_counter()
        response = await connection.ask(head.encode() + sent)
        took = time.perf_counter() - started
        if response.startswith(b"HTTP/1.1 200") and _LAST in response:
            self._times.append(took)
        else:
            self._failed, self._reason = self._failed + 1, self._reason or response[:600].decode(errors="replace")


async def run(load: Load) -> Result:
    """Carries a load to its end."""
    return await _Run(load).run()


if __name__ == "__main__":
    result = uvloop.run(run(msgspec.json.decode(sys.stdin.buffer.read(), type=Load)))
    sys.stdout.buffer.write(msgspec.json.encode(result))
