"""Files that are appended to and kept from growing for ever: past a size one becomes `<name>.1`, and the oldest goes."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
from collections.abc import Iterator
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
    """Puts a file aside if it has outgrown its bound. Several processes may write it: one of them does it.

    Raises:
        OSError: the folder cannot be written.
    """
    with _alone(file.parent):
        if not file.exists() or file.stat().st_size < bound.bytes:
            return
        names = [file, *(file.with_name(f"{file.name}.{n}") for n in range(1, bound.older + 1))]
        for newer, older in reversed(list(pairwise(names))):
            if newer.exists():
                newer.replace(older)
        file.unlink(missing_ok=True)  # where none are kept


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Nobody else who rotates in this folder does so meanwhile. The lock goes with the process that holds it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


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
