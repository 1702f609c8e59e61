"""What a runner leaves with the proxy before it ends, where nobody can look into its sandbox afterwards: compressed tars."""

from __future__ import annotations

import gzip
import os
import stat
import tarfile

from services.orchestrator.runner.fetch import LARGEST_LEFT, MOST, UNPACKED, left_name

TYPE_CHECKING = False  # importing typing would double the time of a start
if TYPE_CHECKING:
    from collections.abc import Callable

    from services.orchestrator.runner.fetch import Source


class Unfit(Exception):
    """It cannot be left, whoever asks: it is not there, cannot be read, or is too large."""


def leave(source: Source, path: str) -> None:
    """Leaves a file or folder, links in it as links. Of what cannot be left nothing is, which is printed: no agent shall make
    its attempt fail by that.

    Raises:
        Refused: the proxy does not want it.
        OSError: the proxy did not answer in time.
    """
    name = left_name(path)
    try:
        open_up(path)
        source.put(name, lambda send: pack(path, send))
    except Unfit as e:
        print(f"{path} is not handed over: {e}", flush=True)  # noqa: T201 - its output is the sandbox's log
        source.put(name, lambda send: None)


def open_up(path: str) -> None:
    """Gives this user the right to read what is its own.

    Raises:
        Unfit: something is not there any more, or is closed for good.
    """
    try:
        _open_up(path)
        for folder, folders, files in os.walk(path):
            for name in folders + files:
                _open_up(os.path.join(folder, name))
    except OSError as e:
        raise Unfit(e.strerror) from e


def pack(path: str, send: Callable[[bytes], None]) -> None:
    """Sends a file or folder as a compressed tar, under its own name.

    Raises:
        Unfit: see there.
    """
    try:
        with (
            gzip.GzipFile(fileobj=_Pieces(send), mode="wb", compresslevel=1, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
        ):
            tar.add(path, os.path.basename(path), filter=_Bounds())
    except (OSError, tarfile.TarError) as e:
        raise Unfit(str(e)) from e


class _Pieces:
    """A file that is sent as it is written."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send, self._left = send, LARGEST_LEFT

    def write(self, data: bytes) -> int:
        self._left -= len(data)
        if self._left < 0:
            raise Unfit(f"it is larger than {LARGEST_LEFT >> 20} MiB, compressed")
        if data:
            self._send(bytes(data))
        return len(data)

    def flush(self) -> None: ...


class _Bounds:
    """Counts what comes into a tar."""

    def __init__(self) -> None:
        self._bytes, self._members = UNPACKED, MOST

    def __call__(self, member: tarfile.TarInfo) -> tarfile.TarInfo:
        self._bytes, self._members = self._bytes - member.size, self._members - 1
        if self._bytes < 0 or self._members < 0:
            raise Unfit(f"it is larger than {UNPACKED >> 30} GiB, or more than {MOST} files")
        return member


def _open_up(path: str) -> None:
    found = os.lstat(path)
    wanted = stat.S_IRWXU if stat.S_ISDIR(found.st_mode) else stat.S_IRUSR
    own = found.st_uid == os.geteuid() and not stat.S_ISLNK(found.st_mode)
    if own and found.st_mode & wanted != wanted:
        os.chmod(path, stat.S_IMODE(found.st_mode) | wanted)
