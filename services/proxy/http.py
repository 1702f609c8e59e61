"""HTTP/1.1 to one server, for what the proxy does a thousand times a second: send a body, take the answer piece by piece.

A general client costs as much a call as all else that the proxy does; a stream of small chunks shows it even more.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Mapping
from typing import cast
from urllib.parse import urlsplit

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from services.proxy.errors import Refused, Unreachable, broken, unavailable
from shared.alarms import Alarms

_MOST_AHEAD = 256 * 1024
"""Bytes of an answer that are taken from the connection before somebody asks for them."""


class Answering(asyncio.Protocol):
    """One connection, and the answer that comes on it.

    Attributes:
        status: HTTP status of the answer.
        complete: all of it has come; so it is while none is waited for.
        idle_since: monotonic seconds at which it was last done with.
        alarm: of the wait for the answer.
    """

    def __init__(self) -> None:
        self.status = 0
        self.complete = True
        self.idle_since = 0.0
        self.alarm = 0
        self._loop = asyncio.get_running_loop()  # to ask for it takes a system call
        self._transport: asyncio.Transport | None = None
        self._pieces: list[bytes] = []
        self.on_body = self._pieces.append  # the parser looks for it when it is made; a method would cost a chunk twice as much
        self._parser = HttpResponseParser(self)
        self._ahead = 0
        self._headed = self._framed = self._keep = self._lost = self._paused = False
        self._waiting: asyncio.Future[None] | None = None
        self._late: Refused | None = None

    @property
    def reusable(self) -> bool:
        """Whether another request may be sent on it. What was not read of an answer would be taken for the next one's."""
        return self.complete and self._keep and not self._lost and not self._pieces

    async def ask(self, request: bytes) -> None:
        """Sends a request, head and body; returns when the status of the answer has come.

        Raises:
            Refused: 502, the connection broke; 503, it was given up. So do `next` and `read`.
        """
        assert self._transport is not None, "it is not connected"
        self.complete = self._headed = self._framed = self._keep = False
        self._transport.write(request)
        while not self._headed:
            await self._news()

    async def next(self) -> bytes:
        """What has come of the body since the last time, as soon as there is something; empty at its end.

        Raises:
            Refused: as `ask`.
        """
        while not self._pieces and not self.complete:
            await self._news()
        piece = b"".join(self._pieces)
        self._pieces.clear()
        self._ahead = 0
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return piece

    async def read(self) -> bytes:
        """The whole body. Raises Refused, as `next`."""
        pieces = [await self.next()]
        while not self.complete:
            pieces.append(await self.next())
        return b"".join(pieces)

    def left(self) -> bool:
        """The answer is no longer waited for. Whether another request may be sent on the connection."""
        self.idle_since = time.monotonic()
        return self.reusable

    def close(self) -> None:
        """Drops the connection, at which the server stops working on the answer."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        if self._headed and not self._framed and exc is None:  # such an answer ends with its connection
            self.complete = True
        self._wake()

    def data_received(self, data: bytes) -> None:
        if self.complete:  # nothing was asked: the server says that it is about to hang up
            self.close()
            return
        self._ahead += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            self.close()
        if self._ahead > _MOST_AHEAD and self._transport is not None and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser, as the next two."""
        self._framed = self._framed or name.lower() in (b"content-length", b"transfer-encoding")

    def on_headers_complete(self) -> None:
        self.status, self._keep, self._headed = self._parser.get_status_code(), self._parser.should_keep_alive(), True

    def on_message_complete(self) -> None:
        self.complete = True

    async def _news(self) -> None:
        if self._lost:
            raise self._late or broken("the connection to the engine broke")
        self._waiting = self._loop.create_future()
        await self._waiting

    def give_up(self, why: Refused) -> None:
        """Ends the wait for the answer with an error, and the connection."""
        self._late = why
        self.close()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


class Connections:
    """Connections to one server; as many as are needed, each kept for a while.

    Args:
        url: base URL, `http` or `https`.
        headers: sent with every request, besides those that any needs.
        connect_s: how long a connection may take.
        answer_s: how long an answer may take, to its end.
        keepalive_s: how long one that idles is used again; shorter than the server keeps it.
    """

    def __init__(self, url: str, headers: Mapping[str, str], *, connect_s: float, answer_s: float, keepalive_s: float) -> None:
        self._url = url
        parts = urlsplit(url)
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._host, self._port = parts.hostname or "", parts.port or (443 if self._tls else 80)
        self._path = parts.path.rstrip("/")
        named = {"host": parts.netloc, "content-type": "application/json", "accept-encoding": "identity", **headers}
        self._head = "".join(f"{name}: {value}\r\n" for name, value in named.items())
        self._connect_s, self._answer_s, self._keepalive_s = connect_s, answer_s, keepalive_s
        self._alarms = Alarms[Answering](answer_s, self._give_up)
        self._idle: list[Answering] = []

    async def ask(self, method: str, path: str, body: bytes = b"") -> Answering:
        """The answer to a request, once its status has come. It must be given back.

        Raises:
            Unreachable: there is no connection to be had.
            Refused: 503, no answer in time; 502, the connection broke.
        """
        connection = self._kept() or await self._connect()
        head = f"{method} {self._path}{path} HTTP/1.1\r\n{self._head}content-length: {len(body)}\r\n\r\n"
        try:
            connection.alarm = self._alarms.set(connection)
            await connection.ask(head.encode() + body)
        except BaseException:
            self._alarms.unset(connection.alarm)
            connection.close()
            raise
        return connection

    def give_back(self, connection: Answering) -> None:
        """Keeps a connection whose answer is complete, and drops any other."""
        self._alarms.unset(connection.alarm)
        if connection.left():
            self._idle.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        """Closes those that idle."""
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    def _give_up(self, connection: Answering) -> None:
        connection.give_up(unavailable(f"the engine took longer than {self._answer_s:g} s (proxy.call_timeout_s)"))

    def _kept(self) -> Answering | None:
        """The connection used last; if that has idled for too long, so have all."""
        while self._idle:
            connection = self._idle.pop()
            if connection.idle_since + self._keepalive_s < time.monotonic():
                connection.close()
                self.close()
            elif connection.reusable:
                return connection
        return None

    async def _connect(self) -> Answering:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_s):
                _, connection = await loop.create_connection(Answering, self._host, self._port, ssl=self._tls)
        except (OSError, TimeoutError):
            raise Unreachable(f"the engine at {self._url} cannot be reached") from None
        return connection
