"""What a runner in a container gets from the proxy: its spec, and packages, which it unpacks; and how it leaves something."""

from __future__ import annotations

import http.client
import io
import os
import tarfile
import time

from services.orchestrator.runner.relay import address_of, dial

TYPE_CHECKING = False  # importing typing would double the time of a start
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from services.orchestrator.spec import Unpack

PATIENCE_S = 600.0  # without a lease: the proxy may restart, and the store behind it
ANSWER_S = 60.0
LARGEST = 512 << 20  # bytes of an answer
LARGEST_LEFT = 64 << 20  # bytes of what is left, as the proxy has it
UNPACKED = 4 << 30  # bytes of a package's content
MOST = 200_000  # members of a package
_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0


class Refused(ValueError):
    """What was asked for is not to be had, however often one asks."""


class Source:
    """The proxy's side of one sandbox.

    Args:
        target: the proxy, as `address_of` takes it.
        ticket: opens what was left there for this sandbox.
        patience_s: how long to go on trying while it is away.
    """

    def __init__(self, target: str, ticket: str, patience_s: float) -> None:
        self._target, self._ticket, self._patience_s = target, ticket, patience_s

    def get(self, name: str) -> bytes:
        """What was left under a name.

        Raises:
            Refused: the proxy does not have it.
            OSError: it did not answer in time.
        """
        return self._patiently(lambda: self._once("GET", name, lambda connection: None))

    def put(self, name: str, write: Callable[[Callable[[bytes], None]], None]) -> None:
        """Leaves something under a name, in the place of what was left before. Raises as `get` does.

        Args:
            name: that the proxy was told of.
            write: sends it piece by piece with what it is given; called anew for every try.
        """
        self._patiently(lambda: self._once("PUT", name, lambda connection: _send_pieces(connection, write)))

    def _patiently(self, ask: Callable[[], bytes]) -> bytes:
        until, pause = time.monotonic() + self._patience_s, _PAUSE_S
        while True:
            try:
                return ask()
            except (OSError, http.client.HTTPException) as e:
                if time.monotonic() + pause > until:
                    raise OSError(f"the proxy at {self._target} did not answer for {self._patience_s:g} s: {e}") from e
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def unpack(self, package: Unpack) -> None:
        """Fetches a package and unpacks it.

        Raises:
            Refused: the proxy does not have it, or it holds what it must not.
            OSError: the proxy did not answer in time, or the disk is full.
        """
        unpack(self.get(package["package"]), package["target"])

    def _once(self, method: str, name: str, send: Callable[[http.client.HTTPConnection], None]) -> bytes:
        connection = http.client.HTTPConnection("proxy", timeout=ANSWER_S)
        connection.sock = self._connect()
        try:
            connection.putrequest(method, f"/box/{self._ticket}/{name}")
            if method == "PUT":
                connection.putheader("Transfer-Encoding", "chunked")
            connection.endheaders()
            send(connection)
            answer = connection.getresponse()
            body = answer.read(LARGEST + 1)
        finally:
            connection.close()
        if answer.status >= 500:
            raise OSError(f"HTTP {answer.status}")
        if answer.status != 200 or len(body) > LARGEST:
            raise Refused(f"the proxy refused {method} {name}: HTTP {answer.status}: {body[:200].decode(errors='replace')}")
        if answer.length:
            raise OSError("the answer broke off")
        return body

    def _connect(self) -> socket.socket:
        sock = dial(*address_of(self._target))
        sock.settimeout(ANSWER_S)
        return sock


def left_name(path: str) -> str:
    """Under which a file or folder of a sandbox is left: one that needs no quoting."""
    return f"left-{path.encode().hex()}"


def _send_pieces(connection: http.client.HTTPConnection, write: Callable[[Callable[[bytes], None]], None]) -> None:
    def send(piece: bytes) -> None:
        try:
            connection.send(b"%x\r\n%b\r\n" % (len(piece), piece))
        except OSError as e:  # not to be taken for one of what is sent
            raise http.client.HTTPException(f"the connection broke: {e}") from e

    write(send)
    connection.send(b"0\r\n\r\n")


def unpack(data: bytes, target: str) -> None:
    """Unpacks a compressed tar over what is there. Folders, files and links only; nothing outside of `target`, nothing through
    a link, no more than some gigabytes.

    Raises:
        Refused: there is something else in it.
    """
    os.makedirs(target, exist_ok=True)
    left, members = UNPACKED, 0
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as tar:
        for member in tar:
            left, members = left - member.size, members + 1
            if left < 0 or members > MOST:
                raise Refused("a package is too large")
            _put(tar, member, _place(target, member.name))


def _place(target: str, name: str) -> str:
    """Where a member goes."""
    path = os.path.normpath(os.path.join(target, name))
    top = os.path.realpath(target)
    folder = os.path.realpath(os.path.dirname(path))
    if path != os.path.normpath(target) and os.path.commonpath([top, folder]) != top:
        raise Refused(f"a package has {name!r} in it, which is not below {target}")
    return path


def _put(tar: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
    if member.isdir():
        os.makedirs(path, exist_ok=True)
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.islink(path) or os.path.exists(path):
        os.unlink(path)
    if member.issym():
        os.symlink(member.linkname, path)
    elif member.isreg() and (content := tar.extractfile(member)):
        _write(path, content.read, member.mode & 0o777 | 0o444)
    else:
        raise Refused(f"a package has {member.name!r} in it, which is neither folder, file nor link")


def _write(path: str, read: Callable[[int], bytes], mode: int) -> None:
    with open(path, "wb") as file:
        while chunk := read(1 << 20):
            file.write(chunk)
        os.fchmod(file.fileno(), mode)
