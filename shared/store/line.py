"""The way to the store: one connection for the commands of all tasks. Replies come in the order of the commands.

redis-py words commands and reads replies, but its own way of sending one costs three times as much as this.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections import deque
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

import hiredis
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ConnectionError,
    NoPermissionError,
    NoScriptError,
    RedisError,
    ResponseError,
)

from shared.alarms import Alarms

_PAUSE_S = 0.05
_KINDS = {
    "NOSCRIPT": NoScriptError,
    "LOADING": BusyLoadingError,
    "NOREPLICAS": ConnectionError,  # it takes no writes until a copy is back
    "WRONGPASS": AuthenticationError,
    "NOAUTH": AuthenticationError,
    "NOPERM": NoPermissionError,
}
_IN_SCRIPT = "ACL failure in script"
_NOTHING = object()


class Login(NamedTuple):
    """Who one is, and what proves it. Without a user it is the server's own, `default`."""

    user: str
    password: str


class Line:
    """A connection that is made anew when it breaks.

    Args:
        url: `redis://host:port/db`.
        login: if the server wants one.
        timeout_s: how long one command may take in all.
        context: what the connection is encrypted with, if it is.
    """

    def __init__(self, url: str, login: Login | None, timeout_s: float, context: ssl.SSLContext | None = None) -> None:
        self._parts = urlsplit(url)
        self._login, self._timeout_s, self._context = login, timeout_s, context
        self._connecting = asyncio.Lock()
        self._wire: _Wire | None = None
        self._alarms = Alarms[asyncio.Future[Any]](timeout_s, _give_up)

    async def run(self, *command: Any) -> Any:
        """The reply to a command. It is repeated when the connection breaks, the server is still loading its data, or takes
        no writes since its copies are away.

        Raises:
            TimeoutError: there was none in time.
            RedisError: the server's last word.
        """
        packed, until = _pack(command), time.monotonic() + self._timeout_s
        wire = self._wire
        try:
            if wire is not None and not wire.lost:
                reply = wire.send(packed)
                alarm = self._alarms.set(reply)
                try:
                    return await reply
                except AuthenticationError:
                    raise
                except ConnectionError:  # that the server is loading counts as such, too
                    await asyncio.sleep(_PAUSE_S)
                finally:
                    self._alarms.unset(alarm)
            async with asyncio.timeout(until - time.monotonic()):
                return await self._patiently(packed)
        except NoPermissionError as e:
            raise NoPermissionError(f"user {self._login.user if self._login else 'default'}: {e}") from None
        except TimeoutError:
            self.close()  # a server that hangs might answer to this when something else was asked
            raise

    async def _patiently(self, packed: bytes) -> Any:
        while True:
            try:
                return await (await self._connected()).send(packed)
            except AuthenticationError:
                raise
            except ConnectionError:
                await asyncio.sleep(_PAUSE_S)

    def close(self) -> None:
        """Hangs up; the next command connects again."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    async def _connected(self) -> _Wire:
        if self._wire is None or self._wire.lost:
            async with self._connecting:
                if self._wire is None or self._wire.lost:
                    self._wire = await self._connect()
        return self._wire

    async def _connect(self) -> _Wire:
        host, port = self._parts.hostname or "localhost", self._parts.port or 6379
        try:
            _, wire = await asyncio.get_running_loop().create_connection(_Wire, host, port, ssl=self._context)
        except OSError as e:
            raise ConnectionError(str(e)) from None
        with contextlib.ExitStack() as unless_done:
            unless_done.callback(wire.close)
            if self._login:
                await wire.send(_pack(("AUTH", *filter(None, self._login))))
            if database := self._parts.path.strip("/"):
                await wire.send(_pack(("SELECT", database)))
            unless_done.pop_all()
        return wire


class _Wire(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        self.lost = False
        self._reader = hiredis.Reader(replyError=_error, notEnoughData=_NOTHING)
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._loop = asyncio.get_running_loop()  # to ask for it takes a system call
        self._transport: asyncio.Transport | None = None

    def send(self, command: bytes) -> asyncio.Future[Any]:
        """Sends a command; its reply is to come."""
        if self.lost or self._transport is None:
            raise ConnectionError("the connection to the store broke")
        reply: asyncio.Future[Any] = self._loop.create_future()
        self._waiting.append(reply)
        self._transport.write(command)
        return reply

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        for reply in self._waiting:
            if not reply.done():
                reply.set_exception(ConnectionError("the connection to the store broke"))

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        try:
            while (content := self._reader.gets()) is not _NOTHING:
                self._answer(content)
        except hiredis.ProtocolError:
            self.close()

    def _answer(self, content: Any) -> None:
        reply = self._waiting.popleft()
        if reply.done():  # nobody waits for it any more
            return
        if isinstance(content, RedisError):
            reply.set_exception(content)
        else:
            reply.set_result(content)


def _give_up(reply: asyncio.Future[Any]) -> None:
    if not reply.done():
        reply.set_exception(TimeoutError())


def _pack(command: tuple[Any, ...]) -> bytes:
    """A command as bytes; redis-py words some of them in two, as `SCRIPT LOAD`."""
    return cast(bytes, hiredis.pack_command((*str(command[0]).split(), *command[1:])))


def _error(message: str) -> RedisError:
    if _IN_SCRIPT in message:
        return NoPermissionError(message)
    return _KINDS.get(message.partition(" ")[0], ResponseError)(message)
