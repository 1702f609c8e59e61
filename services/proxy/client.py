"""The harness's side of one request: what it asks, whether it still listens, and what is sent to it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from http import HTTPStatus
from typing import Any, Protocol, TypeVar

from services.proxy.errors import ClientLeft, Refused

T = TypeVar("T")

JSON = "application/json"
EVENTS = "text/event-stream; charset=utf-8"
_STATUS_LINES = {s.value: f"HTTP/1.1 {s.value} {s.phrase}\r\n" for s in HTTPStatus}


class Wire(Protocol):
    """The connection that a request came on."""

    def write(self, data: bytes) -> None:
        """Sends bytes."""
        ...

    async def writable(self) -> None:
        """Returns when the client reads as fast as it is written to, or has hung up."""
        ...

    def ended(self, *, stays: bool) -> None:
        """The response is complete. The connection stays for another request, or is closed."""
        ...


class Client:
    """One request, and its response. The connection tells it what comes: `feed`, `complete`, `lose`.

    Args:
        wire: the connection.
        method: of the request line, as the next two.
        path: without the query, unquoted.
        query: as sent.
        headers: by lower-case name.
        stays: the connection is to stay after the response.

    Attributes:
        started: the status line was sent.
        done: the response is complete.
        gone: the client has hung up before that.
        task: what serves it.
    """

    def __init__(self, wire: Wire, method: str, path: str, query: str, headers: Mapping[str, str], *, stays: bool) -> None:
        self.method, self.path, self.query, self.headers = method, path, query, headers
        self.started = self.done = self.gone = False
        self.task: asyncio.Task[None] | None = None
        self._wire = wire
        self._stays = stays
        self._chunked = False
        self._body: list[bytes] = []
        self._size = 0
        self._whole = False
        self._reading: asyncio.Future[None] | None = None
        self._working = False

    def feed(self, data: bytes) -> None:
        """Takes in a piece of the body; of one that was answered already, it is dropped."""
        if not self.done:
            self._body.append(data)
            self._size += len(data)
            self._wake()

    def complete(self) -> None:
        """Notes the end of the body."""
        self._whole = True
        self._wake()

    def lose(self) -> None:
        """Notes that the client hung up."""
        self.gone = not self.done
        self._wake()
        if self._working and self.task is not None:
            self.task.cancel()

    async def read(self, limit: int, within_s: float) -> bytes:
        """The request body.

        Args:
            limit: in bytes.
            within_s: how long it may take to come.

        Raises:
            Refused: 413, it is larger; 408, it takes longer.
            ClientLeft: the client hung up before its end.
        """
        declared = self.headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > limit:
            raise _too_large(limit)
        if not self._whole:
            try:
                async with asyncio.timeout(within_s):
                    await self._rest(limit)
            except TimeoutError:
                message = f"the body did not come within {within_s:g} s; proxy.read_timeout_s sets the limit"
                raise Refused(408, "request_timeout", message) from None
        if self._size > limit:
            raise _too_large(limit)
        return self._body[0] if len(self._body) == 1 else b"".join(self._body)

    async def _rest(self, limit: int) -> None:
        if self.headers.get("expect", "").lower() == "100-continue":
            self._wire.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while not self._whole and self._size <= limit:
            if self.gone:
                raise ClientLeft("the client left before its request was whole")
            self._reading = asyncio.get_running_loop().create_future()
            await self._reading

    async def unless_left(self, work: Coroutine[Any, Any, T]) -> T:
        """Does `work` in the task that serves this request, and cancels it as soon as the client hangs up.

        Raises:
            ClientLeft: it was cancelled.
        """
        if self.gone:
            work.close()
            raise _left()
        self._working = True
        try:
            return await work
        except asyncio.CancelledError:
            if self.gone and self.task is not None and self.task.uncancel() == 0:
                raise _left() from None
            raise
        finally:
            self._working = False

    async def start(self, status: int, content_type: str, **headers: str) -> None:
        """Sends the status line and headers of a response whose length is not known, once."""
        if self.started:
            return
        await self._wire.writable()
        self.started = self._chunked = True
        self._put(_head(status, content_type, "transfer-encoding: chunked", headers | self._farewell(headers)))

    async def send(self, data: bytes, *, last: bool = False) -> None:
        """Sends a piece of the body; waits while the client reads slower than the engine writes."""
        await self._wire.writable()
        self._put(_chunk(data, last=last))
        if last:
            self._end()

    async def respond(self, status: int, content_type: str, body: bytes, **headers: str) -> None:
        """Sends a whole response."""
        await self._wire.writable()
        self.started = True
        head = _head(status, content_type, f"content-length: {len(body)}", headers | self._farewell(headers))
        self._put(head if self.method == "HEAD" else head + body)
        self._end()

    def _farewell(self, headers: Mapping[str, str]) -> dict[str, str]:
        self._stays = self._stays and headers.get("connection") != "close"
        return {} if self._stays else {"connection": "close"}

    def _put(self, data: bytes) -> None:
        if not self.gone:
            self._wire.write(data)

    def _end(self) -> None:
        if not self.gone:
            self.done = True
            self._wire.ended(stays=self._stays)

    def _wake(self) -> None:
        if self._reading is not None and not self._reading.done():
            self._reading.set_result(None)


def _head(status: int, content_type: str, framing: str, headers: Mapping[str, str]) -> bytes:
    lines = "".join([f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items()])
    return f"{_STATUS_LINES[status]}content-type: {content_type}\r\n{framing}\r\n{lines}\r\n".encode("latin-1")


def _chunk(data: bytes, *, last: bool) -> bytes:
    chunk = b"%x\r\n%b\r\n" % (len(data), data) if data else b""
    return chunk + b"0\r\n\r\n" if last else chunk


def _too_large(limit: int) -> Refused:
    return Refused(413, "too_large", f"the body is larger than {limit} bytes; proxy.max_body_mb sets the limit")


def _left() -> ClientLeft:
    return ClientLeft("the client left before its reply was whole")
