"""The harness's side of one request, on bare ASGI: its body, whether it still listens, and what is sent to it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any, TypeVar

from services.proxy.errors import ClientLeft, Refused

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
T = TypeVar("T")

JSON = "application/json"
EVENTS = "text/event-stream; charset=utf-8"


class Client:
    """One request of a harness. `close` ends the watch for its leaving.

    Attributes:
        headers: by lower-case name.
        started: the status line was sent.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
        self.started = False
        self._receive = receive
        self._send = send
        self._left: asyncio.Task[None] | None = None
        self._working: asyncio.Task[Any] | None = None

    async def read(self, limit: int, within_s: float) -> bytes:
        """The request body.

        Args:
            limit: in bytes.
            within_s: how long it may take to come.

        Raises:
            Refused: 413, it is larger; 408, it takes longer.
            ClientLeft: the client hung up before its end.
        """
        try:
            async with asyncio.timeout(within_s):
                return await self._body(limit)
        except TimeoutError:
            message = f"the body did not come within {within_s:g} s; proxy.read_timeout_s sets the limit"
            raise Refused(408, "request_timeout", message) from None

    async def _body(self, limit: int) -> bytes:
        body = bytearray()
        too_large = Refused(413, "too_large", f"the body is larger than {limit} bytes; proxy.max_body_mb sets the limit")
        declared = self.headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > limit:
            raise too_large
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientLeft("the client left before its request was whole")
            body += message.get("body", b"")
            if len(body) > limit:
                raise too_large
            if not message.get("more_body", False):
                return bytes(body)

    def watch(self) -> None:
        """Starts to watch for the client's leaving; its body must have been read."""
        self._left = asyncio.create_task(self._until_gone())
        self._left.add_done_callback(self._interrupt)

    @property
    def gone(self) -> bool:
        """The client has hung up (or its reply is complete)."""
        return self._left is not None and self._left.done()

    async def unless_left(self, work: Coroutine[Any, Any, T]) -> T:
        """Does `work`, and cancels it as soon as the client hangs up.

        Raises:
            ClientLeft: it was cancelled.
        """
        assert self._left is not None, "call watch() first"
        if self._left.done():
            work.close()
            raise _left()
        task = self._working = asyncio.current_task()
        assert task is not None, "it is awaited in a task"
        try:
            return await work
        except asyncio.CancelledError:
            if self._left.done() and task.uncancel() == 0:
                raise _left() from None
            raise
        finally:
            self._working = None

    async def start(self, status: int, content_type: str, **headers: str) -> None:
        """Sends the status line and headers, once."""
        if self.started:
            return
        named = {"content-type": content_type, **{k.replace("_", "-"): v for k, v in headers.items()}}
        pairs = [(k.encode("latin-1"), v.encode("latin-1")) for k, v in named.items()]
        self.started = True
        await self._send({"type": "http.response.start", "status": status, "headers": pairs})

    async def send(self, data: bytes, *, last: bool = False) -> None:
        """Sends a piece of the body; waits while the client reads slower than the engine writes."""
        await self._send({"type": "http.response.body", "body": data, "more_body": not last})

    async def respond(self, status: int, content_type: str, body: bytes, **headers: str) -> None:
        """Sends a whole response."""
        await self.start(status, content_type, content_length=str(len(body)), **headers)
        await self.send(body, last=True)

    def close(self) -> None:
        """Ends the watch."""
        if self._left is not None:
            self._left.cancel()

    def _interrupt(self, _: asyncio.Task[None]) -> None:
        if self._working is not None:
            self._working.cancel()

    async def _until_gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass


def _left() -> ClientLeft:
    return ClientLeft("the client left before its reply was whole")
