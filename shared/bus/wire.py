"""NATS on the wire, as much of it as publishing takes: one connection, and what the server answers on it.

The general client makes several tasks and a queue of every answer, which costs a call as much as all else that its record does.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, cast

import msgspec
import nats.errors

from shared.bus.refusals import refusal_in

_LINE = b"\r\n"
_NO_LINES = str.maketrans("\r\n", "  ")


class Hello(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a client says first.

    Attributes:
        name: of the connection, for whoever looks at the server.
        nkey: public key of the user, if the server wants to know one.
        sig: its signature of what the server asked to be signed.
    """

    name: str
    nkey: str | None = None
    sig: str | None = None


_HABITS = {"lang": "python", "version": "1", "protocol": 1, "verbose": False, "headers": True, "no_responders": True}


class Answer(NamedTuple):
    """What came back for a message: its status line if it has one (`NATS/1.0 503`), and its body."""

    status: bytes
    body: bytes


class Wire(asyncio.Protocol):
    """One connection.

    Args:
        inbox: what the subjects begin with that answers come to.
        on_error: told what the server complains of.

    Attributes:
        lost: it broke, or was closed.
        tls: whether the server wants it; known once it has `greeted`.
        nonce: what the server wants to see signed; known then, too, and empty if it wants no key.
        greeted: done when the server has said what it is.
        ready: done when the server has taken what it was told; an error where it has not.
    """

    def __init__(self, inbox: str, on_error: Callable[[str], None]) -> None:
        self._loop = asyncio.get_running_loop()  # to ask for it takes a system call
        self.lost = self.tls = False
        self.nonce = ""
        self.greeted: asyncio.Future[None] = self._loop.create_future()
        self.ready: asyncio.Future[None] = self._loop.create_future()
        self._on_error = on_error
        self._transport = cast(asyncio.Transport, None)  # until the connection is made
        self._buffer = bytearray()
        self._inbox = f"{inbox}.{secrets.token_hex(12)}."
        self._count = 0
        self._waiting: dict[bytes, _Waiting] = {}
        self._unsent: list[bytes] = []

    def hello(self, hello: Hello) -> None:
        """Introduces the client; the server's word on it is `ready`."""
        about = msgspec.json.encode(_HABITS | msgspec.to_builtins(hello))
        self._transport.write(b"CONNECT %b\r\nSUB %b* 1\r\nPING\r\n" % (about, self._inbox.encode()))

    def publish(self, subject: str, headers: Mapping[str, str], data: bytes) -> asyncio.Future[Answer]:
        """Sends a message, together with others that are published in the same moment; the answer is to come.

        Raises:
            nats.errors.StaleConnectionError: the connection is lost; so does the answer when it breaks.
        """
        if self.lost:
            raise nats.errors.StaleConnectionError
        self._count += 1
        inbox = f"{self._inbox}{self._count}"
        lines = "".join([f"{name}: {_on_one_line(value)}\r\n" for name, value in headers.items()])
        head = f"NATS/1.0\r\n{lines}\r\n".encode()
        command = f"HPUB {subject} {inbox} {len(head)} {len(head) + len(data)}\r\n".encode()
        answer: asyncio.Future[Answer] = self._loop.create_future()
        self._waiting[inbox.encode()] = _Waiting(answer, subject)
        if not self._unsent:
            self._loop.call_soon(self._send)
        self._unsent += (command, head, data, _LINE)
        return answer

    def close(self) -> None:
        """Hangs up."""
        self.lost = True
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self._fail(nats.errors.StaleConnectionError())

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        at = 0
        try:
            while (end := self._buffer.find(_LINE, at)) >= 0:
                line = bytes(self._buffer[at:end])
                if not line.startswith((b"MSG", b"HMSG")):
                    self._control(line)
                    at = end + len(_LINE)
                elif (after := self._message(line, end + len(_LINE))) is not None:
                    at = after
                else:
                    break
        except (ValueError, msgspec.DecodeError) as e:
            self._on_error(f"the server says what is not understood: {e}")
            self.close()
        del self._buffer[:at]

    def _message(self, line: bytes, start: int) -> int | None:
        """Takes in the message whose body begins at `start` of the buffer; gives where it ends, None if it is not all there.
        Its line is ``MSG subject sid [reply] size`` or ``HMSG subject sid [reply] size-of-headers size``."""
        kind, subject, *fields = line.split()
        end = start + int(fields[-1])
        if len(self._buffer) < end + len(_LINE):
            return None
        status, body = b"", start
        if kind == b"HMSG":
            body += int(fields[-2])
            status = bytes(self._buffer[start:body]).partition(_LINE)[0]
        waiting = self._waiting.pop(subject, None)
        if waiting is not None and not waiting.answer.done():
            waiting.answer.set_result(Answer(status, bytes(self._buffer[body:end])))
        return end + len(_LINE)

    def _send(self) -> None:
        if not self.lost:
            self._transport.write(b"".join(self._unsent))
        self._unsent.clear()

    def _control(self, line: bytes) -> None:
        word, _, rest = line.partition(b" ")
        match word:
            case b"PING":
                self._transport.write(b"PONG\r\n")
            case b"INFO":
                self._greet(msgspec.json.decode(rest, type=_Info))
            case b"PONG" if not self.ready.done():
                self.ready.set_result(None)
            case b"-ERR":
                self._complain(rest.decode(errors="replace").strip(" '"))

    def _greet(self, info: _Info) -> None:
        self.tls, self.nonce = info.tls_required, info.nonce
        if not self.greeted.done():
            self.greeted.set_result(None)

    def _complain(self, message: str) -> None:
        """The server hangs up after all complaints but those of permissions; these no answer will follow."""
        refusal = refusal_in(message)
        if not refusal:
            self._on_error(message)
        if not self.ready.done():
            self.ready.set_exception(refusal or nats.errors.Error(f"nats: {message}"))
        elif refusal:
            refused = [inbox for inbox, waiting in self._waiting.items() if waiting.subject == refusal.subject]
            _fail((self._waiting.pop(inbox).answer for inbox in refused), refusal)

    def _fail(self, error: Exception) -> None:
        _fail((self.greeted, self.ready, *(waiting.answer for waiting in self._waiting.values())), error)


def _on_one_line(value: str) -> str:
    return value if value.isprintable() else value.translate(_NO_LINES)


class _Waiting(NamedTuple):
    answer: asyncio.Future[Answer]
    subject: str


class _Info(msgspec.Struct):
    tls_required: bool = False
    nonce: str = ""


def _fail(expected: Iterable[asyncio.Future[Any]], error: Exception) -> None:
    for answer in expected:
        if not answer.done():
            answer.set_exception(error)
            answer.exception()  # nobody need wait for it
