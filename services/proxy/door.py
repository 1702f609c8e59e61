"""HTTP/1.1 for harnesses: one connection, its requests one after another, and limits on what may come.

A general server costs a call as much as recording it does.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import unquote

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser, parse_url

from services.proxy.client import Client
from shared.alarms import Alarms

MAX_HEAD = 128 * 1024
"""Bytes of a request line and headers; they are counted with every read, so that a little more may pass at once."""
_MOST_AHEAD = 256 * 1024
"""Bytes that a client may send ahead of the response that it waits for. Beyond, it is not even seen to hang up."""

Serve = Callable[[Client], Coroutine[Any, Any, None]]
"""Answers a request. It raises nothing but cancellation; if it leaves a response unfinished, the connection is broken off."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a connection waits, in seconds.

    Attributes:
        head_s: for a request's head, also for the first one to begin.
        idle_s: for the next request.
    """

    head_s: float
    idle_s: float


class Door(asyncio.Protocol):
    """One connection.

    Args:
        serve: answers its requests.
        limits: of waiting.
        doors: the open connections, this one among them.
        tasks: the requests that are being served.
        idle: closes those that wait for too long for their next request.

    Attributes:
        closed: done when the connection is.
    """

    def __init__(
        self, serve: Serve, limits: Limits, doors: set[Door], tasks: set[asyncio.Task[None]], idle: Alarms[Door]
    ) -> None:  # fmt: skip
        self._serve, self._limits, self._doors, self._tasks, self._idle = serve, limits, doors, tasks, idle
        self._loop = asyncio.get_running_loop()
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self._parser = HttpRequestParser(self)
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)  # it must not spoil the request before it
        self._transport = cast(asyncio.Transport, None)  # until the connection is made
        self._requests: deque[Client] = deque()  # the first is being served
        self._coming: Client | None = None  # whose body comes
        self._ahead = 0  # bytes that came while a request waited
        self._last = False  # no request is served after the present one
        self._in_head, self._head = True, 0
        self._url, self._headers = b"", dict[str, str]()
        self._timer: asyncio.TimerHandle | None = None  # of a head
        self._alarm = 0
        self._full: asyncio.Future[None] | None = None

    def close(self) -> None:
        """Closes the connection once the request that is being served has its response."""
        self._last = True
        if not self._requests:
            self._transport.close()

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    async def writable(self) -> None:
        if self._full is not None:
            await asyncio.shield(self._full)

    def ended(self, *, stays: bool) -> None:
        self._requests.popleft()
        if self._last or not stays:
            self._transport.close()
        elif not self._transport.is_closing():
            self._next()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance
        self._doors.add(self)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._doors.discard(self)
        self.closed.set_result(None)
        self._came()
        self.resume_writing()
        for client in self._requests:
            client.lose()
        self._requests.clear()
        del self._parser  # these two know this object

    def pause_writing(self) -> None:
        self._full = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._full is not None:
            self._full.set_result(None)
            self._full = None

    def data_received(self, data: bytes) -> None:
        if len(self._requests) > 1:
            self._hold_back(len(data))
        if not self._in_head:
            self._came()
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:  # such a request is answered like any other
            pass
        except HttpParserError:
            self._refuse(b"400 Bad Request", b"this is no HTTP request")
            return
        if self._in_head:
            self._count(len(data))
        else:
            self._came()
            self._await_next()

    def on_message_begin(self) -> None:
        """Called by the parser, as the next five."""
        self._in_head, self._head = True, 0
        self._url, self._headers = b"", {}

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # and in no trailer
            self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._coming = self._request()
        self._requests.append(self._coming)
        if len(self._requests) == 1:
            self._begin()

    def on_body(self, data: bytes) -> None:
        if self._coming is not None:
            self._coming.feed(data)

    def on_message_complete(self) -> None:
        if self._coming is not None:
            self._coming.complete()
            self._coming = None

    def _request(self) -> Client:
        parser, url = self._parser, parse_url(self._url)
        path, query = url.path.decode("ascii"), (url.query or b"").decode("latin-1")
        stays = parser.should_keep_alive() and not parser.should_upgrade()
        return Client(self, parser.get_method().decode(), unquote(path), query, self._headers, stays=stays)

    def _begin(self) -> None:
        client = self._requests[0]
        client.task = self._loop.create_task(self._answer(client))
        self._tasks.add(client.task)

    async def _answer(self, client: Client) -> None:
        try:
            await self._serve(client)
        finally:
            if client.task is not None:
                self._tasks.discard(client.task)
            if not client.done:
                self._transport.close()

    def _next(self) -> None:
        if self._ahead > _MOST_AHEAD:
            self._transport.resume_reading()
        self._ahead = 0
        if self._requests:
            self._begin()
        else:
            self._await_next()

    def _hold_back(self, received: int) -> None:
        before, self._ahead = self._ahead, self._ahead + received
        if before <= _MOST_AHEAD < self._ahead:
            self._transport.pause_reading()

    def _count(self, received: int) -> None:
        self._head += received
        if self._head > MAX_HEAD:
            self._refuse(b"431 Request Header Fields Too Large", b"the request line and headers are too long")
        elif self._timer is None:
            self._await_head()

    def _await_head(self) -> None:
        self._timer = self._loop.call_later(self._limits.head_s, self._too_late)

    def _await_next(self) -> None:
        if not self._requests and not self._in_head:
            self._alarm = self._idle.set(self)

    def _came(self) -> None:
        self._idle.unset(self._alarm)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_late(self) -> None:
        self._refuse(b"408 Request Timeout", b"the request did not come in time (proxy.read_timeout_s)")

    def _refuse(self, status: bytes, message: bytes) -> None:
        """Which API a head without an end is for is not known: the answer is plain text."""
        self._came()
        head = b"HTTP/1.1 %b\r\ncontent-type: text/plain\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        if not self._requests:  # or it would stand in the middle of a response
            self._transport.write(head % (status, len(message)) + message)
        self._transport.close()
