"""The archive of a run on disk: segment files of gzip members, a member per batch of messages, a JSON message a line.

``zcat archive/*.gz | jq`` reads it. Every member carries a CRC32; a writer that is killed leaves at most one that is cut off,
at the end of its own file. Each process writes files of its own, so that any number of collectors share the folder. Images and
other media of requests stand beside them in ``media/``, each named by the sha256 of its bytes.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from isal import igzip

FOLDER = "archive"
"""Of a run folder."""
MEDIA = "media"
"""Of the archive's folder."""
SUFFIX = ".jsonl.gz"

SEGMENT_BYTES = 16 * 1024 * 1024
"""Size at which a file is left for the next one; less where the whole archive is to stay small."""
_SMALLEST_SEGMENT = 64 * 1024
_SEGMENTS = 16  # at least so many, so that deleting the oldest one never takes much of the archive
_LEVEL = 1  # token ids in base64 hardly get smaller with more effort
_QUIET_S = 60.0


@dataclass(frozen=True, slots=True)
class Retention:
    """How much of an archive is kept.

    Attributes:
        max_bytes: beyond which the oldest files are deleted; 0 for no bound.
        max_age_s: likewise, by the time of their last message.
    """

    max_bytes: int = 0
    max_age_s: float = 0.0


def archive_files(folder: Path) -> list[Path]:
    """The files of an archive, those that were begun first in front; none where there is no such folder."""
    return sorted(folder.glob(f"*{SUFFIX}"))


class Segments:
    """The files that one process writes.

    Args:
        folder: made if it is not there.
        retention: of the whole folder.

    Attributes:
        total: bytes of the whole folder, when `expire` last looked.
    """

    def __init__(self, folder: Path, retention: Retention | None = None) -> None:
        self._folder = folder
        self._retention = retention or Retention()
        part = self._retention.max_bytes // _SEGMENTS or SEGMENT_BYTES
        self._segment_bytes = min(SEGMENT_BYTES, max(_SMALLEST_SEGMENT, part))
        self._name = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{secrets.token_hex(4)}"
        self._number, self._size = 0, 0
        self.total = 0
        folder.mkdir(parents=True, exist_ok=True)

    def append(self, lines: Sequence[bytes]) -> None:
        """Adds a member; returns when it is on the disk.

        Raises:
            OSError: it is not. The file is left as it is, with what may be half a member at its end, and the next one begun.
        """
        if self._size >= self._segment_bytes:
            self._next()
        member = igzip.compress(b"".join(line + b"\n" for line in lines), _LEVEL, mtime=0)
        try:
            self._write(member)
        except OSError:
            self._next()
            raise
        self._size += len(member)

    def keep_medium(self, sha256: str, body: bytes) -> None:
        """Keeps the bytes of an image, say; returns when they are on the disk.

        Raises:
            OSError: they are not.
        """
        file = self._folder / MEDIA / sha256
        file.parent.mkdir(exist_ok=True)
        part = file.with_name(f"{sha256}-{secrets.token_hex(4)}.part")  # others may be at the same one
        with part.open("wb") as f:
            f.write(body)
            f.flush()
            os.fsync(f.fileno())
        part.replace(file)
        _sync_folder(file.parent)

    def has_medium(self, sha256: str) -> bool:
        """Whether a medium is kept; it counts as new from now on, for what was just sent again is not old."""
        try:
            os.utime(self._folder / MEDIA / sha256)
        except FileNotFoundError:
            return False
        return True

    def expire(self, now: float) -> list[Path]:
        """Deletes what is too old or too much, media included, oldest first, and names it. A file that was written to within
        the last minute stays: its process may be about to add to it.

        Args:
            now: unix seconds.
        """
        files = sorted(_stats([*archive_files(self._folder), *(self._folder / MEDIA).glob("*")]))
        total, gone = sum(size for _, size, _ in files), []
        for modified, size, file in files:
            too_old = 0 < self._retention.max_age_s < now - modified
            too_much = 0 < self._retention.max_bytes < total
            if not (too_old or too_much) or now - modified < _QUIET_S:
                break
            file.unlink(missing_ok=True)
            total -= size
            gone.append(file)
        self.total = total
        return gone

    def _next(self) -> None:
        self._number, self._size = self._number + 1, 0

    def _write(self, member: bytes) -> None:
        file = self._folder / f"{self._name}-{self._number:05d}{SUFFIX}"
        with file.open("ab") as f:  # opened each time: one that was deleted meanwhile is made anew
            f.write(member)
            f.flush()
            os.fsync(f.fileno())
        if not self._size:
            _sync_folder(self._folder)


def _sync_folder(folder: Path) -> None:
    """Makes the names of new files last."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _stats(files: Sequence[Path]) -> list[tuple[float, int, Path]]:
    """(time of the last change, bytes, file); one that another collector deletes at this moment is left out."""
    found = []
    for file in files:
        try:
            stat = file.stat()
        except FileNotFoundError:
            continue
        found.append((stat.st_mtime, stat.st_size, file))
    return found
