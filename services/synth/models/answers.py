"""Answers that were paid for, on disk: a file each, by the digest of what was asked. No key of an API is in them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from services.synth.models.calls import Kept
from shared.errors import MakerError

_decoder = msgspec.json.Decoder(Kept)


class Paid(msgspec.Struct, frozen=True, kw_only=True):
    """Of an answer, who paid for it, and what it cost in US dollars."""

    run_id: str
    usd: float


_paid = msgspec.json.Decoder(Paid)


class Answers:
    """A folder of answers. Several processes may share one.

    Args:
        folder: is made when the first answer is written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, key: str) -> Kept | None:
        """The answer to a call, if there is one.

        Raises:
            MakerError: its file cannot be read.
        """
        file = self._file(key)
        try:
            return _decoder.decode(file.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as e:
            raise MakerError(f"{file}: {e}; remove it, and the model is asked again") from None

    def write(self, key: str, kept: Kept) -> None:
        """Returns when the answer is durable, whole.

        Raises:
            OSError: the disk does not take it.
        """
        file = self._file(key)
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(dir=file.parent, prefix=f".{key[:8]}-")
        try:
            with os.fdopen(handle, "wb") as f:
                f.write(msgspec.json.format(msgspec.json.encode(kept)))
                f.flush()
                os.fsync(f.fileno())
            Path(part).replace(file)
        except BaseException:
            Path(part).unlink(missing_ok=True)
            raise
        _sync(file.parent)

    def paid(self, run_id: str) -> Iterator[Paid]:
        """What a run paid for each of its answers; files that cannot be read are passed over."""
        for file in self._folder.glob("*/[0-9a-f]*.json"):
            try:
                paid = _paid.decode(file.read_bytes())
            except (OSError, msgspec.DecodeError):
                continue  # `read` says so to whoever needs it
            if paid.run_id == run_id:
                yield paid

    def _file(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"


def _sync(folder: Path) -> None:
    """A name in a folder is durable when the folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
