"""Files that are appended to and kept from growing for ever: past a size one becomes `<name>.1`, and the oldest goes."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
from dataclasses import dataclass
from itertools import pairwise
from logging.handlers import WatchedFileHandler
from pathlib import Path

MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Bound:
    """How much is kept.

    Attributes:
        bytes: that a file may have before it is put aside.
        older: files that are kept beside the one that is written.
    """

    bytes: int
    older: int


def rotate(file: Path, bound: Bound) -> None:
    """Puts a file aside if it has outgrown its bound; one that cannot be put aside goes on growing. Several processes may write
    it: one of them does it, which holds the lock of the file itself."""
    with contextlib.suppress(OSError):
        descriptor = os.open(file, os.O_RDWR)  # or a network's file system would lock nothing
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            here = os.fstat(descriptor)
            if here.st_size >= bound.bytes and os.path.samestat(here, file.stat()):
                _shift(file, bound.older)
        finally:
            os.close(descriptor)


def _shift(file: Path, older: int) -> None:
    """The file itself goes last: before that nobody begins another one."""
    names = [file, *(file.with_name(f"{file.name}.{n}") for n in range(1, older + 1))]
    for newer, next_one in reversed(list(pairwise(names))):
        if newer.exists():
            newer.replace(next_one)
    if not older:
        file.unlink()


class RotatingHandler(WatchedFileHandler):
    """Logs to a file that is rotated, and goes on in the new one when another process has rotated it.

    Args:
        file: in a folder that is there.
        bound: of it.
    """

    def __init__(self, file: Path, bound: Bound) -> None:
        super().__init__(file, encoding="utf-8")
        self._file, self._bound = file, bound

    def emit(self, record: logging.LogRecord) -> None:
        """Writes a line; a disk that takes none is told as logging tells of its own errors."""
        try:
            super().emit(record)
            if self.stream and os.fstat(self.stream.fileno()).st_size >= self._bound.bytes:
                rotate(self._file, self._bound)
        except OSError:
            self.handleError(record)
