"""Requests as they come on the wire: many on a connection, at once, in odd framings, and what is no request."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from services.proxy.client import Client
from services.proxy.door import Limits
from services.proxy.errors import ClientLeft, Refused
from services.proxy.server import Server
from tests.unit.proxy.world import eventually

FLOOD = 1024
POST = b"POST /a%20b?c=d HTTP/1.1\r\nhost: x\r\n"


@dataclass
class Echo:
    """Serves what it was asked; `/stream` in two chunks, `/flood` in many, `/break` in one and no end, `/slow` when `free`."""

    free: asyncio.Event = field(default_factory=asyncio.Event)
    served: list[str] = field(default_factory=list)
    written: int = 0
    kept: bool = False  # a piece waits for the client to read on

    async def serve(self, client: Client) -> None:
        self.served.append(client.path)
        try:
            body = await client.read(1000, 0.3)
            if client.path == "/slow":
                await client.unless_left(self.free.wait())
            await self._answer(client, body)
        except (ClientLeft, Refused) as e:
            self.served.append(type(e).__name__)

    async def _answer(self, client: Client, body: bytes) -> None:
        if client.path not in ("/stream", "/break", "/flood"):
            said = {"method": client.method, "path": client.path, "query": client.query, "body": body.decode()}
            await client.respond(200, "application/json", json.dumps(said).encode())
            return
        await client.start(200, "text/plain")
        while client.path == "/flood" and self.written < FLOOD:
            sending = asyncio.ensure_future(client.send(b"x" * 65536))
            self.kept = not (await asyncio.wait({sending}, timeout=0.2))[0]
            await sending
            self.written += 1
        await client.send(b"one ")
        if client.path == "/stream":
            await client.send(b"two", last=True)


@dataclass
class House:
    """A server, and a connection to it."""

    echo: Echo
    server: Server
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def answer(self) -> tuple[bytes, bytes]:
        """Head and body of the next response that has a length."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        size = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return head, await self.reader.readexactly(size)

    async def said(self) -> dict[str, Any]:
        """What the next response says that was asked."""
        return dict(json.loads((await self.answer())[1]))


@asynccontextmanager
async def house(head_s: float = 5.0, idle_s: float = 5.0) -> AsyncIterator[House]:
    echo = Echo()
    server = Server(echo.serve, Limits(head_s, idle_s))
    listener = socket.create_server(("127.0.0.1", 0))
    await server.start(listener)
    try:
        async with asyncio.timeout(5):
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.getsockname()[1])
            yield House(echo, server, reader, writer)
            writer.close()
    finally:
        echo.free.set()
        await server.stop(0.2)


@pytest.mark.parametrize("cut", [1, 1000])
@pytest.mark.parametrize(
    "framed", [b"content-length: 5\r\n\r\nhello", b"transfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\nx: y\r\n\r\n"]
)
async def test_a_request_comes_out_whole_however_it_is_framed_and_cut(framed: bytes, cut: int) -> None:
    async with house() as at:
        for _ in range(3):
            sent = POST + framed
            for i in range(0, len(sent), cut):
                at.writer.write(sent[i : i + cut])
                await at.writer.drain()
                await asyncio.sleep(0)
            assert await at.said() == {"method": "POST", "path": "/a b", "query": "c=d", "body": "hello"}


async def test_requests_sent_ahead_are_answered_in_their_order_one_at_a_time() -> None:
    async with house() as at:
        at.writer.write(b"".join(b"GET /%b HTTP/1.1\r\n\r\n" % p for p in (b"slow", b"1", b"2", b"3")))
        await eventually(lambda: at.echo.served == ["/slow"])
        at.writer.write(b"GET /4 HTTP/1.1\r\nconnection: close\r\n\r\n")
        assert at.server.serving == 1
        at.echo.free.set()
        assert [(await at.said())["path"] for _ in range(4)] == ["/slow", "/1", "/2", "/3"]
        head, _ = await at.answer()
        assert b"connection: close" in head
        assert await at.reader.read() == b""


async def test_a_stream_ends_with_the_last_chunk_and_its_connection_serves_on() -> None:
    async with house() as at:
        at.writer.write(b"GET /stream HTTP/1.1\r\n\r\n")
        assert (await at.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n")
        assert await at.reader.readuntil(b"0\r\n\r\n") == b"4\r\none \r\n3\r\ntwo\r\n0\r\n\r\n"
        at.writer.write(b"GET /1 HTTP/1.1\r\n\r\n")
        assert (await at.said())["path"] == "/1"


async def test_a_response_that_is_left_unfinished_is_broken_off() -> None:
    async with house() as at:
        at.writer.write(b"GET /break HTTP/1.1\r\n\r\n")
        assert (await at.reader.read()).endswith(b"\r\n\r\n4\r\none \r\n")


async def test_the_head_of_a_response_says_how_long_its_body_would_be() -> None:
    async with house() as at:
        at.writer.write(b"HEAD /1 HTTP/1.1\r\n\r\nGET /2 HTTP/1.1\r\n\r\n")
        assert b"content-length: 57\r\n" in await at.reader.readuntil(b"\r\n\r\n")
        assert (await at.said())["path"] == "/2"


async def test_a_client_that_waits_for_leave_to_send_its_body_is_given_it() -> None:
    async with house() as at:
        at.writer.write(POST + b"expect: 100-continue\r\ncontent-length: 5\r\n\r\n")
        assert await at.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        at.writer.write(b"hello")
        assert (await at.said())["body"] == "hello"


@pytest.mark.parametrize(
    "asked", [b"GET /1 HTTP/1.0\r\n\r\n", b"GET /1 HTTP/1.1\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n"]
)
async def test_clients_that_speak_something_else_are_answered_and_their_connection_closed(asked: bytes) -> None:
    async with house() as at:
        at.writer.write(asked)
        assert (await at.said())["path"] == "/1"
        assert await at.reader.read() == b""


async def test_a_client_that_leaves_stops_what_is_done_for_it_and_what_waits_is_never_begun() -> None:
    async with house() as at:
        at.writer.write(b"GET /slow HTTP/1.1\r\n\r\nGET /1 HTTP/1.1\r\n\r\n")
        await eventually(lambda: at.echo.served == ["/slow"])
        at.writer.transport.abort()
        await eventually(lambda: not at.server.serving)
        assert at.echo.served == ["/slow", "ClientLeft"]


@pytest.mark.parametrize("sent", [b"SSH-2.0-x\r\n\r\n", b"GET / HTTP/9.9.9\r\n\r\n", b"CONNECT x:1 HTTP/1.1\r\n\r\n"])
async def test_what_is_no_request_is_400(sent: bytes) -> None:
    async with house() as at:
        at.writer.write(sent)
        assert (await at.reader.read()).startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert not at.echo.served


async def test_nothing_is_written_into_the_middle_of_a_response() -> None:
    async with house() as at:
        at.writer.write(b"GET /slow HTTP/1.1\r\n\r\nnonsense\r\n\r\n")
        assert await at.reader.read() == b""
        await eventually(lambda: not at.server.serving)


async def test_a_connection_that_idles_is_closed_also_after_blank_lines() -> None:
    async with house(idle_s=0.1) as at:
        at.writer.write(b"GET /1 HTTP/1.1\r\n\r\n")
        assert (await at.said())["path"] == "/1"
        at.writer.write(b"\r\n")
        assert await at.reader.read() == b""


async def test_a_client_that_reads_slowly_holds_back_what_is_written_to_it() -> None:
    async with house() as at:
        at.writer.write(b"GET /flood HTTP/1.1\r\n\r\n")
        await eventually(lambda: at.echo.written > 0)
        await eventually(lambda: at.echo.kept)
        assert at.echo.written < FLOOD
        while at.echo.written < FLOOD:
            assert await at.reader.read(1 << 20)
