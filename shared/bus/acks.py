"""Publishing to JetStream, acknowledged, over a connection of its own that is made anew when it breaks."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from urllib.parse import unquote, urlsplit

import msgspec
import nats.errors
from nats.js.errors import APIError, NoStreamResponseError

from shared.bus.wire import Answer, Hello, Wire

_PORT = 4222
_NO_RESPONDERS = b"NATS/1.0 503"


class _Error(msgspec.Struct):
    code: int
    err_code: int | None = None
    description: str | None = None


class Ack(msgspec.Struct, omit_defaults=True):
    """What the server says of a message that it took: its stream and place there, and whether it had its id already."""

    stream: str = ""
    seq: int = 0
    duplicate: bool = False
    error: _Error | None = None


_decoder = msgspec.json.Decoder(Ack)


class Acks:
    """Messages, and the acknowledgements that they wait for.

    Args:
        url: `nats://host:port`, or `tls`.
        token: of the server, if it wants one.
        name: of the connection.
        on_error: told what the server complains of.
    """

    def __init__(self, url: str, token: str | None, name: str, on_error: Callable[[str], None]) -> None:
        parts = urlsplit(url if "://" in url else f"nats://{url}")
        self._host, self._port, self._tls = parts.hostname or "localhost", parts.port or _PORT, parts.scheme == "tls"
        user, password = (None if part is None else unquote(part) for part in (parts.username, parts.password))
        alone = password is None  # a name without a password is a token
        self._hello = Hello(
            name=name, auth_token=token or (user if alone else None), user=None if alone else user, password=password
        )
        self._on_error = on_error
        self._connecting = asyncio.Lock()
        self._wire: Wire | None = None
        self._closed = False

    async def publish(self, subject: str, data: bytes, headers: dict[str, str], timeout_s: float) -> Ack:
        """Returns when the message is in its stream.

        Raises:
            nats.errors.Error: there is no connection, or it broke; ConnectionClosedError after `close`.
            nats.errors.TimeoutError: no acknowledgement came in time.
            NoStreamResponseError: no stream takes the subject, or JetStream is not up.
            APIError: the server refused, saying why.
        """
        wire = self._wire
        if wire is None or wire.lost:
            wire = await self._connected(timeout_s)
        answer = wire.publish(subject, headers, data)
        timer = asyncio.get_running_loop().call_later(timeout_s, _give_up, answer)
        try:
            return _checked(await answer)
        except nats.errors.TimeoutError:
            wire.close()  # the server may hang, with the connection open
            raise
        finally:
            timer.cancel()

    def close(self) -> None:
        """Hangs up, for good."""
        self._closed = True
        if self._wire is not None:
            self._wire.close()

    async def _connected(self, timeout_s: float) -> Wire:
        if self._closed:
            raise nats.errors.ConnectionClosedError
        try:
            async with asyncio.timeout(timeout_s), self._connecting:
                if self._wire is None or self._wire.lost:
                    self._wire = await self._connect()
                return self._wire
        except (OSError, TimeoutError):  # the former for whatever a network can say
            raise nats.errors.NoServersError from None

    async def _connect(self) -> Wire:
        loop = asyncio.get_running_loop()
        transport, wire = await loop.create_connection(lambda: Wire(self._on_error), self._host, self._port)
        with contextlib.ExitStack() as unless_done:
            unless_done.callback(wire.close)
            await wire.greeted
            if self._tls or wire.tls:
                context = ssl.create_default_context()
                secured = await loop.start_tls(transport, wire, context, server_hostname=self._host)
                assert secured is not None, "the connection is open"
                wire.connection_made(secured)
            wire.hello(self._hello)
            await wire.ready
            unless_done.pop_all()
        return wire


def _give_up(answer: asyncio.Future[Answer]) -> None:
    if not answer.done():
        answer.set_exception(nats.errors.TimeoutError())


def _checked(answer: Answer) -> Ack:
    if answer.status.startswith(_NO_RESPONDERS):
        raise NoStreamResponseError
    ack = _decoder.decode(answer.body)
    if ack.error is not None:
        APIError.from_error(msgspec.to_builtins(ack.error))  # raises the class that the code stands for
    return ack
