"""What passing calls on costs at the very least: the gateway's steps of one call, and nothing read or understood of it.

A round trip to the store, the request to the engine, a message to the bus whose acknowledgement is waited for, and only then
the last bytes of the answer. The message is the request, which has about the size of a record.

    python -m tests.bench.floor PORT ENGINE_PORT BUS_URL BUS_KEYS STORE_URL STORE_KEYS
"""

from __future__ import annotations

import asyncio
import sys
from itertools import count
from typing import cast

import uvloop

from shared.bus.acks import Acks
from shared.bus.nkey import nkey_of
from shared.bus.rights import inbox_of
from shared.config import TlsConfig
from shared.keys import OPERATOR, SEED, secret_of
from shared.store.connect import login_of
from shared.store.line import Line
from shared.tls import context_of

_HEAD_END = b"\r\n\r\n"
_STREAM_END = b"\r\n0\r\n\r\n"
_LENGTH = b"content-length:"
_SUBJECT = "forge.v1.evt.call.recorded.floor.floor"
_TIMEOUT_S = 5.0


class _Wire(asyncio.Protocol):
    """A connection on which messages of HTTP come one after another: `pieces` gets what came, `None` after the end of one."""

    def __init__(self) -> None:
        self.transport = cast(asyncio.Transport, None)  # until the connection is made
        self.pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._left = 0  # bytes of the body; -1: until the end of a stream

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.pieces.put_nowait(b"")

    def data_received(self, data: bytes) -> None:
        if not self._left:
            self._left = message_size(data)
        self._left -= len(data) if self._left > 0 else 0
        self.pieces.put_nowait(data)
        if not self._left or (self._left < 0 and data.endswith(_STREAM_END)):
            self._left = 0
            self.pieces.put_nowait(None)

    async def whole(self) -> bytes:
        """The next message; empty if the other side hung up."""
        pieces: list[bytes] = []
        while piece := await self.pieces.get():
            pieces.append(piece)
        return b"".join(pieces) if piece is None else b""


def message_size(data: bytes) -> int:
    """Bytes of a message whose head is whole, head and body; -1 for a stream."""
    head, end = data.partition(_HEAD_END)[0].lower(), data.index(_HEAD_END) + len(_HEAD_END)
    _, found, length = head.partition(_LENGTH)
    return end + int(length.split(b"\r\n", 1)[0]) if found else -1 if b"transfer-encoding" in head else end


async def _serve(client: _Wire, engine_port: int, store: Line, bus: Acks, ids: count[int]) -> None:
    _, engine = await asyncio.get_running_loop().create_connection(_Wire, "127.0.0.1", engine_port)
    while request := await client.whole():
        await store.run("INCR", "floor")
        engine.transport.write(request)
        held = await engine.pieces.get()
        while (piece := await engine.pieces.get()) and held:
            client.transport.write(held)
            held = piece
        await bus.publish(_SUBJECT, request, {"Nats-Msg-Id": f"floor/{next(ids)}"})
        client.transport.write(held or b"")
    engine.transport.abort()


async def serve(port: int, engine_port: int, bus_url: str, bus_keys: str, store_url: str, store_keys: str) -> None:
    """Serves on a port of 127.0.0.1 until the process is ended."""
    loop, ids, tasks = asyncio.get_running_loop(), count(), set[asyncio.Task[None]]()
    store = Line(store_url, login_of(store_keys, OPERATOR), _TIMEOUT_S)
    nkey = nkey_of(secret_of(bus_keys, OPERATOR, SEED), f"{OPERATOR}.{SEED}")
    context = context_of(TlsConfig(), "bus.tls")
    bus = Acks(bus_url, nkey, context, "floor", inbox_of(OPERATOR), print, _TIMEOUT_S)

    def connect() -> _Wire:
        wire = _Wire()
        tasks.add(task := loop.create_task(_serve(wire, engine_port, store, bus, ids)))
        task.add_done_callback(tasks.discard)
        return wire

    server = await loop.create_server(connect, "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]))
