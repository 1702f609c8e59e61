"""Publishing to JetStream, acknowledged, over a connection of its own that is made anew when it breaks."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections import deque
from collections.abc import Callable

import msgspec
import nats.errors
from nats.js.errors import APIError, NoStreamResponseError

from shared.bus.servers import NatsServer, servers_of
from shared.bus.wire import Answer, Hello, Wire

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
        url: `nats://host:port`, or `tls`; several of one cluster with commas between.
        token: of the servers, if they want one.
        name: of the connection.
        on_error: told what a server complains of, and why there is no connection to it.

    Raises:
        ConfigError: `url` is something else.
    """

    def __init__(self, url: str, token: str | None, name: str, on_error: Callable[[str], None]) -> None:
        self._servers = deque(servers_of(url))  # the one to be tried first is the first
        self._token, self._name, self._on_error = token, name, on_error
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
        """A connection to the first server that takes one. Each that does not, or is still being waited for when this is
        cancelled, is the last to be tried again."""
        for left in range(len(self._servers) - 1, -1, -1):
            server = self._servers[0]
            self._servers.rotate(-1)
            try:
                wire = await self._connect_to(server)
            except (OSError, nats.errors.Error) as e:
                self._on_error(f"{server.name}: {e}")
                if not left:
                    raise
            else:
                self._servers.rotate(1)
                return wire
        raise AssertionError("there is a server")

    async def _connect_to(self, server: NatsServer) -> Wire:
        loop = asyncio.get_running_loop()
        transport, wire = await loop.create_connection(lambda: Wire(self._on_error), server.host, server.port)
        with contextlib.ExitStack() as unless_done:
            unless_done.callback(wire.close)
            await wire.greeted
            if server.tls or wire.tls:
                context = ssl.create_default_context()
                secured = await loop.start_tls(transport, wire, context, server_hostname=server.host)
                assert secured is not None, "the connection is open"
                wire.connection_made(secured)
            token = self._token or server.token
            wire.hello(Hello(name=self._name, auth_token=token, user=server.user, password=server.password))
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
