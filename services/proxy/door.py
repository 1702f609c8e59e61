"""Connections with limits: how long a request's head may be, and how long it may take to come."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD = 128 * 1024
"""Bytes of a request line and headers; they are counted with every read, so that a little more may pass at once."""


class Door(HttpToolsProtocol):
    """One connection. The parser itself keeps whatever comes, for as long as it takes.

    Attributes:
        head_timeout_s: seconds for a head, and for the first one to begin; between requests the server's own limit holds.
    """

    head_timeout_s: float
    _late: asyncio.TimerHandle | None = None
    _in_head = True
    _head = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        self._came()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        self._in_head, self._head = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._in_head or self.transport.is_closing():
            self._came()
            return
        self._head += len(data)
        if self._head > MAX_HEAD:
            self._refuse(b"431 Request Header Fields Too Large", b"the request line and headers are too long")
        else:
            self._expect()

    def _expect(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(self.head_timeout_s, self._too_late)

    def _came(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _too_late(self) -> None:
        self._refuse(b"408 Request Timeout", b"the request did not come in time (proxy.read_timeout_s)")

    def _refuse(self, status: bytes, message: bytes) -> None:
        """Which API a head without an end is for is not known: the answer is plain text."""
        self._came()
        head = b"HTTP/1.1 %b\r\ncontent-type: text/plain\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        self.transport.write(head % (status, len(message)) + message)
        self.transport.close()


def door(head_timeout_s: float) -> type[Door]:
    """Connections with a time limit."""
    return type("TimedDoor", (Door,), {"head_timeout_s": head_timeout_s})
