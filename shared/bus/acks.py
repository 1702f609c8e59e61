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

from shared.alarms import Alarms
from shared.bus.nkey import Nkey
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
        nkey: of the user; None for servers that want none.
        context: what the connection is encrypted with, if it is.
        name: of the connection.
        inbox: what the subjects begin with that answers come to.
        on_error: told what a server complains of, and why there is no connection to it.
        timeout_s: how long a message may take, and how long a connection to it.

    Raises:
        ConfigError: `url` is something else.
    """

    def __init__(
        self,
        url: str,
        nkey: Nkey | None,
        context: ssl.SSLContext,
        name: str,
        inbox: str,
        on_error: Callable[[str], None],
        timeout_s: float,
    ) -> None:
        self._servers = deque(servers_of(url))  # the one to be tried first is the first
        self._nkey, self._context, self._name, self._on_error = nkey, context, name, on_error
        self._inbox = inbox
        self._connecting = asyncio.Lock()
        self._wire: Wire | None = None
        self._timeout_s = timeout_s
        self._alarms = Alarms[asyncio.Future[Answer]](timeout_s, _give_up)
        self._closed = False

    async def publish(self, subject: str, data: bytes, headers: dict[str, str]) -> Ack:
        """Returns when the message is in its stream.

        Raises:
            nats.errors.Error: there is no connection, or it broke; ConnectionClosedError after `close`.
            nats.errors.TimeoutError: no acknowledgement came in time.
            Refused: the user may not publish that.
            NoStreamResponseError: no stream takes the subject, or JetStream is not up.
            APIError: the server refused, saying why.
        """
        wire = self._wire
        if wire is None or wire.lost:
            wire = await self._connected()
        answer = wire.publish(subject, headers, data)
        alarm = self._alarms.set(answer)
        try:
            return _checked(await answer)
        except nats.errors.TimeoutError:
            wire.close()  # the server may hang, with the connection open
            raise
        finally:
            self._alarms.unset(alarm)

    def close(self) -> None:
        """Hangs up, for good."""
        self._closed = True
        if self._wire is not None:
            self._wire.close()

    async def _connected(self) -> Wire:
        if self._closed:
            raise nats.errors.ConnectionClosedError
        try:
            async with asyncio.timeout(self._timeout_s), self._connecting:
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
        transport, wire = await loop.create_connection(self._wire_of, server.host, server.port)
        with contextlib.ExitStack() as unless_done:
            unless_done.callback(wire.close)
            await wire.greeted
            if server.tls or wire.tls:
                secured = await loop.start_tls(transport, wire, self._context, server_hostname=server.host)
                assert secured is not None, "the connection is open"
                wire.connection_made(secured)
            wire.hello(self._hello(wire.nonce))
            await wire.ready
            unless_done.pop_all()
        return wire

    def _wire_of(self) -> Wire:
        return Wire(self._inbox, self._on_error)

    def _hello(self, nonce: str) -> Hello:
        if self._nkey is None or not nonce:
            return Hello(name=self._name)
        return Hello(name=self._name, nkey=self._nkey.public, sig=self._nkey.sign(nonce))


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
