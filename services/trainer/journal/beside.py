"""What the rows of a journal refer to and do not hold: images, and the experts that an engine chose. A file each, named by its
hash, so that a step can be learned again whatever became of the store."""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path

from services.trainer.journal.journal import JournalError, sync_folder


class BesideFiles:
    """The files in a folder, which comes to be with the first one.

    Attributes:
        lock: held from before files are kept until the record that refers to them is durable, and while some are dropped.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.lock = asyncio.Lock()

    async def keep(self, bodies: Mapping[str, bytes]) -> None:
        """Returns when bodies are durable, each under its hash (hex). One that is there already is not written again.

        Raises:
            JournalError: the disk is full or broken.
        """
        if bodies:
            await asyncio.to_thread(self._write, bodies)

    def read(self, sha256: str) -> bytes:
        """A body by its hash.

        Raises:
            JournalError: it is gone or damaged.
        """
        file = self._folder / sha256
        try:
            body = file.read_bytes()
        except OSError as e:
            raise JournalError(f"{file}: {e.strerror}; restore it, or start another run") from None
        if hashlib.sha256(body).hexdigest() != sha256:
            raise JournalError(f"{file}: damaged; restore it, or start another run")
        return body

    def any(self) -> bool:
        """Whether there are files at all."""
        return self._folder.is_dir()

    def drop_all_but(self, needed: Collection[str]) -> None:
        """Deletes what no hash of `needed` names, and what a killed process left half-written."""
        for file in self._folder.iterdir():
            if file.name not in needed:
                file.unlink()

    def _write(self, bodies: Mapping[str, bytes]) -> None:
        try:
            self._folder.mkdir(exist_ok=True)
            for sha256, body in bodies.items():
                if not (self._folder / sha256).exists():
                    _put(self._folder / sha256, body)
            sync_folder(self._folder)
        except OSError as e:
            raise JournalError(f"{self._folder}: cannot be written: {e.strerror}; free some space") from e


def _put(target: Path, body: bytes) -> None:
    """A whole file or none."""
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".part-", delete=False) as part:
        part.write(body)
        part.flush()
        os.fsync(part.fileno())
    Path(part.name).rename(target)
