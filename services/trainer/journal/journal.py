"""A write-ahead journal: records in files that are only appended to, each with a checksum, durable before anything follows.

A file is named by the number of its first record; a new one is begun whenever a checkpoint is made, so that what lies before
the oldest checkpoint can be deleted as a whole.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import zlib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from shared.errors import ConfigError, ForgeError

MAGIC = b"OFJ1"
_HEAD = struct.Struct("<4sQII")
"""Magic, number of the record, length of its body, checksum of all that."""


class JournalError(ForgeError):
    """A journal that is damaged, or that cannot be written."""


class Journal:
    """The journal in a folder. One process at a time has it open.

    Raises:
        ConfigError: another process has it.
        JournalError: it is damaged.
        OSError: it cannot be read or written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(folder / "lock")
        try:
            self._next = self._repair()
            self._file = _open(self._name(self._next if not self._files() else self._files()[-1][0]))
        except BaseException:
            os.close(self._lock)
            raise
        self._written = self._durable = 0
        self._syncing = asyncio.Lock()

    @property
    def folder(self) -> Path:
        """Where it lies."""
        return self._folder

    @property
    def cursor(self) -> int:
        """Number of the next record; the first one has 0."""
        return self._next

    def append(self, body: bytes) -> int:
        """Writes a record. Returns what `sync` wants to be told so that it is durable.

        Raises:
            JournalError: the disk is full or broken.
        """
        frame = _HEAD.pack(MAGIC, self._next, len(body), _checksum(self._next, body)) + body
        if self._file < 0:
            raise JournalError(f"{self._folder}: the journal is closed: the trainer stops")
        size = os.fstat(self._file).st_size
        try:
            _write_all(self._file, frame)
        except OSError as e:
            os.ftruncate(self._file, size)
            raise JournalError(f"{self._folder}: the journal cannot be written: {e.strerror}; free some space") from e
        self._next += 1
        self._written += 1
        return self._written

    async def sync(self, mark: int) -> None:
        """Returns when the records up to a mark are durable; those that wait at the same time share one fsync.

        Raises:
            JournalError: the disk is broken.
        """
        async with self._syncing:
            if self._durable >= mark:
                return
            reached, file = self._written, self._file
            try:
                await asyncio.to_thread(os.fsync, file)
            except OSError as e:
                raise JournalError(f"{self._folder}: the journal cannot be written: {e.strerror}") from e
            self._durable = max(self._durable, reached)

    async def rotate(self) -> None:
        """Begins a new file, unless the last one is still empty. What was written before is durable then."""
        await self.sync(self._written)
        async with self._syncing:
            if os.fstat(self._file).st_size:
                old, self._file = self._file, _open(self._name(self._next))
                os.fsync(old)
                os.close(old)

    def prune(self, cursor: int) -> None:
        """Deletes the files whose records all lie before a cursor."""
        files = self._files()
        for (_, file), (following, _) in pairwise(files):
            if following <= cursor:
                file.unlink()

    def read(self, cursor: int) -> Iterator[bytes]:
        """The records from a cursor on.

        Raises:
            JournalError: they are not all there, or damaged.
        """
        files = self._files()
        if files[0][0] > cursor or cursor > self._next:
            raise JournalError(f"{self._folder}: records {cursor} to {self._next} are wanted, and it begins with {files[0][0]}")
        for i, (first, file) in enumerate(files):
            if i + 1 == len(files) or files[i + 1][0] > cursor:
                bodies, _ = read_frames(file, first)
                yield from bodies[max(0, cursor - first) :]

    def close(self) -> None:
        """Closes the files and lets another process have them. Doing it again changes nothing."""
        if self._file >= 0:
            os.close(self._file)
            os.close(self._lock)
            self._file = -1

    def _repair(self) -> int:
        """Cuts off a record that was not written to its end. Returns the number of the next one."""
        following: int | None = None
        for first, file in self._files():
            if following not in (None, first):
                raise JournalError(f"{self._folder}: records {following} to {first - 1} are missing")
            bodies, size = read_frames(file, first)
            if size < file.stat().st_size:
                if file != self._files()[-1][1]:
                    raise JournalError(_damage(file, size))
                os.truncate(file, size)
            following = first + len(bodies)
        return following or 0

    def _files(self) -> list[tuple[int, Path]]:
        return sorted((int(file.stem), file) for file in self._folder.glob("*.journal"))

    def _name(self, first: int) -> Path:
        return self._folder / f"{first:012}.journal"


def read_frames(file: Path, first: int) -> tuple[list[bytes], int]:
    """The records of a file whose first one has a number, and the place after the last one that is whole.

    Raises:
        JournalError: a record is damaged and whole ones follow: that is no torn end.
    """
    data, place, bodies = file.read_bytes(), 0, list[bytes]()
    while (frame := _frame(data, place)) is not None and frame[0] == first + len(bodies):
        bodies.append(frame[1])
        place += _HEAD.size + len(frame[1])
    later = place - 1
    while (later := data.find(MAGIC, later + 1)) >= 0:
        if _frame(data, later) is not None:
            raise JournalError(_damage(file, place))
    return bodies, place


def _frame(data: bytes, place: int) -> tuple[int, bytes] | None:
    """Number and body of a record at a place, if one lies there whole."""
    if len(data) - place < _HEAD.size:
        return None
    magic, number, length, checksum = _HEAD.unpack_from(data, place)
    body = data[place + _HEAD.size : place + _HEAD.size + length]
    whole = magic == MAGIC and len(body) == length and _checksum(number, body) == checksum
    return (number, body) if whole else None


def _checksum(number: int, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(struct.pack("<QI", number, len(body))))


def _damage(file: Path, place: int) -> str:
    return f"{file}: damaged at byte {place}; nothing was changed. Restore it, or start another run"


def _locked(file: Path) -> int:
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise ConfigError(f"{file.parent}: another trainer is at work on this run") from None
    return descriptor


def _open(file: Path) -> int:
    """A file to append to, which is in its folder for good."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    sync_folder(file.parent)
    return descriptor


def _write_all(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def sync_folder(folder: Path) -> None:
    """Makes durable which files a folder has."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
