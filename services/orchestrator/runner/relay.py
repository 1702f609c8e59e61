"""Carries connections of a sandbox that has a network of its own to the proxy, byte by byte.

Nothing blocks. Each direction holds at most one piece: while one side is slow, the other is not read. The end of one direction
is passed on, and the other goes on until it ends too. With as many connections as are allowed, new ones wait to be taken.
"""

from __future__ import annotations

import os
import socket
import time

from services.orchestrator.runner.loop import READ, WRITE, Loop

HOST, PORT = "127.0.0.1", 8080
PIECE = 65536
SUFFIX = ".sock"
"""Of the names of proxies' sockets in a folder."""
MOST = 128
"""Connections at once."""
_BACKLOG = 128


def listen() -> socket.socket:
    """A socket on the relay's address in the present network.

    Raises:
        OSError: somebody listens there already.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((HOST, PORT))
    listener.listen(_BACKLOG)
    return listener


class Relay:
    """Takes connections on one socket.

    Args:
        loop: that it acts in.
        listener: the socket.
        target: where to, as `address_of` takes it.

    Attributes:
        moved: when something last went through, by the monotonic clock.
        asked: connections on which the sandbox has said something and waits for an answer.
    """

    def __init__(self, loop: Loop, listener: socket.socket, target: str) -> None:
        self.moved, self.asked = time.monotonic(), 0
        self._loop, self._listener = loop, listener
        self._family, self._address = address_of(target)
        self._pairs: set[Pair] = set()
        listener.setblocking(False)
        loop.watch(listener.fileno(), READ, self._accept)

    def close(self) -> None:
        """Ends all connections."""
        self._loop.watch(self._listener.fileno(), 0, self._accept)
        self._listener.close()
        for pair in tuple(self._pairs):
            pair.close()

    def gone(self, pair: Pair) -> None:
        """A connection has ended."""
        self._pairs.discard(pair)
        if self._listener.fileno() >= 0:
            self._loop.watch(self._listener.fileno(), READ, self._accept)

    def _accept(self, _: int) -> None:
        try:
            inner = self._listener.accept()[0]
        except OSError:  # it was gone before it was taken
            return
        try:
            outer = dial(self._family, self._address)
        except OSError:  # the proxy is away: the harness tries again, as it would without a relay
            inner.close()
            return
        self._pairs.add(Pair(self, self._loop, inner, outer))
        if len(self._pairs) >= MOST:
            self._loop.watch(self._listener.fileno(), 0, self._accept)


class End:
    """One end of a connection: what waits to be sent to it, whether it has sent all it will, and whether it was told that the
    other end has."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.pending = memoryview(b"")
        self.finished = self.told = False


class Pair:
    """A connection of the sandbox, and the one to the proxy that belongs to it."""

    def __init__(self, relay: Relay, loop: Loop, inner: socket.socket, outer: socket.socket) -> None:
        self._relay, self._loop = relay, loop
        self._inner, self._outer = End(inner), End(outer)
        self._asked = False
        self._arm()

    def close(self) -> None:
        """Breaks both off."""
        self._ask(False)
        for end in (self._inner, self._outer):
            self._loop.watch(end.sock.fileno(), 0, self._on_inner)
            end.sock.close()
        self._relay.gone(self)

    def _on_inner(self, events: int) -> None:
        self._act(self._inner, self._outer, events)

    def _on_outer(self, events: int) -> None:
        self._act(self._outer, self._inner, events)

    def _act(self, end: End, other: End, events: int) -> None:
        try:
            if events != READ:
                self._send(end, other)
            if events != WRITE and not other.pending and not end.finished:
                self._receive(end, other)
        except OSError:
            self.close()
            return
        if self._inner.told and self._outer.told:
            self.close()
        else:
            self._arm()

    def _receive(self, end: End, other: End) -> None:
        try:
            piece = end.sock.recv(PIECE)
        except BlockingIOError:
            return
        self._relay.moved = time.monotonic()
        if piece:
            self._ask(end is self._inner)
            other.pending = memoryview(piece)
        else:
            end.finished = True
        self._send(other, end)

    def _send(self, end: End, other: End) -> None:
        """Sends what waits; an end to which the connection is not made yet takes nothing."""
        try:
            if end.pending:
                end.pending = end.pending[end.sock.send(end.pending) :]
        except BlockingIOError:
            return
        if other.finished and not end.pending and not end.told:
            end.told = True
            end.sock.shutdown(socket.SHUT_WR)

    def _ask(self, asked: bool) -> None:
        self._relay.asked += asked - self._asked
        self._asked = asked

    def _arm(self) -> None:
        inner, outer = self._inner, self._outer
        for end, other, handler in ((inner, outer, self._on_inner), (outer, inner, self._on_outer)):
            wants = 0 if end.finished or other.pending else READ
            wants |= WRITE if end.pending else 0
            self._loop.watch(end.sock.fileno(), wants, handler)


def address_of(target: str) -> tuple[int, str | tuple[str, int]]:
    """Family and address of `tcp:host:port`, `unix:/path/of/a.sock` or `unix:/folder/of/sockets`, where each proxy has one.
    A name is looked up, which may take a while.

    Raises:
        OSError: the name is not known.
    """
    kind, _, where = target.partition(":")
    if kind == "unix":
        return socket.AF_UNIX, where
    host, _, port = where.rpartition(":")
    found = socket.getaddrinfo(host.strip("[]").encode(), int(port), type=socket.SOCK_STREAM)[0]  # a text brings in much code
    return found[0], (str(found[4][0]), int(found[4][1]))


def dial(family: int, address: str | tuple[str, int]) -> socket.socket:
    """A connection that is being made. Of a folder's sockets any one, so that calls spread over the proxies; what a proxy that
    died left there is passed over.

    Raises:
        OSError: it cannot be.
    """
    if family != socket.AF_UNIX:
        return _dial(family, address)
    failure = OSError(f"no proxy has a socket in {address}")
    for path in _sockets(str(address)):
        try:
            return _dial(family, path)
        except OSError as e:
            failure = e
    raise failure


def _sockets(path: str) -> list[str]:
    """The socket itself, or those of a folder, beginning anywhere."""
    if not os.path.isdir(path):
        return [path]
    found = sorted(os.path.join(path, name) for name in os.listdir(path) if name.endswith(SUFFIX))
    start = int.from_bytes(os.urandom(2), "big") % (len(found) or 1)  # importing random would double the time of a start
    return found[start:] + found[:start]


def _dial(family: int, address: str | tuple[str, int]) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        sock.connect(address)
    except OSError as e:
        if isinstance(e, BlockingIOError) and family != socket.AF_UNIX:  # a unix socket that would block has a full backlog
            return sock
        sock.close()
        raise
    return sock
