"""Weight files of a run: each is whole before anybody hears of it, and carries a checksum that the engine compares."""

from __future__ import annotations

import errno
import hashlib
import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from shared.errors import ConfigError

log = logging.getLogger(__name__)

BASE = "base.safetensors"
"""The weights that adapters are added to, beside the versions of those."""
_MB = 1024 * 1024
_FULL = ("No space left", "StorageFull")
"""How libraries word a full disk."""


class Pushed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A weight file; its manifest, beside it.

    Attributes:
        version: of the weights.
        file: its name.
        size: in bytes.
        sha256: of all of it, in hexadecimal.
    """

    version: int
    file: str
    size: int
    sha256: str


class WeightFiles:
    """The folder that weights are pushed through. A version counts once its manifest is there, which is written last.

    Args:
        folder: is made if it is not there.
        keep: so many versions stay.
    """

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder = folder
        self._keep = keep

    def write(self, version: int, export: Callable[[Path], None]) -> Pushed:
        """Has a version written, in place of what there is of it, and removes old ones.

        Args:
            version: of the weights.
            export: writes them to a file, as safetensors.

        Raises:
            ConfigError: the disk is full.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self._manifest(version).unlink(missing_ok=True)
        self._remove_partial()
        self._prune(self._keep - 1)
        with self._told_if_full(f"weights of version {version}"):
            pushed = _export(self.folder / f"v{version}.safetensors", version, export)
            self._write_manifest(pushed)
        return pushed

    def write_base(self, export: Callable[[Path], None]) -> Pushed:
        """Has written what all versions have in common, in place of what there is of it. It stays.

        Raises:
            ConfigError: the disk is full.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._told_if_full("the weights that adapters are added to"):
            return _export(self.folder / BASE, 0, export)

    def path(self, pushed: Pushed) -> Path:
        """Where a weight file is."""
        return self.folder / pushed.file

    def newest(self) -> Pushed | None:
        """The newest version that is complete; None if there is none."""
        return next(self._complete(), None)

    def _complete(self) -> Iterator[Pushed]:
        """Complete versions, the newest first."""
        for manifest in sorted(self.folder.glob("v*.json"), key=_number, reverse=True):
            try:
                pushed = msgspec.json.decode(manifest.read_bytes(), type=Pushed)
                whole = self.path(pushed).stat().st_size == pushed.size
            except (OSError, msgspec.DecodeError) as e:
                log.warning("%s is passed over: %s", manifest, e)
                continue
            if whole:
                yield pushed

    def _prune(self, keep: int) -> None:
        """Removes all versions but the newest. Engines that read one still do: its bytes go with their last reader."""
        for old in list(self._complete())[max(keep, 1) :]:
            self._manifest(old.version).unlink(missing_ok=True)
            self.path(old).unlink(missing_ok=True)

    def _remove_partial(self) -> None:
        """Removes what was never finished: a writer died, or the disk was full."""
        named = {pushed.file for pushed in self._complete()}
        for file in [*self.folder.glob("v*.safetensors"), *self.folder.glob("*.part")]:
            if file.name not in named:
                file.unlink(missing_ok=True)

    def _manifest(self, version: int) -> Path:
        return self.folder / f"v{version}.json"

    def _write_manifest(self, pushed: Pushed) -> None:
        manifest = self._manifest(pushed.version)
        part = manifest.with_suffix(".json.part")
        part.write_bytes(msgspec.json.encode(pushed))
        part.replace(manifest)

    @contextmanager
    def _told_if_full(self, what: str) -> Iterator[None]:
        try:
            yield
        except Exception as e:
            if not _is_full(e):
                raise
            words = self._full_words(what)
            self._remove_partial()
            raise ConfigError(words) from e

    def _full_words(self, what: str) -> str:
        free = shutil.disk_usage(self.folder).free // _MB
        known = self.newest()
        needs = f"; one takes {known.size // _MB} MB" if known else ""
        return (
            f"the disk of {self.folder} is full ({free} MB free): {what} could not be written{needs}; "
            "free some space, or set run.root to a folder on another disk"
        )


def checksum(file: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with file.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def _export(file: Path, version: int, export: Callable[[Path], None]) -> Pushed:
    export(file)
    return Pushed(version, file.name, file.stat().st_size, checksum(file))


def _number(manifest: Path) -> int:
    digits = manifest.stem.removeprefix("v")
    return int(digits) if digits.isdecimal() else -1


def _is_full(error: Exception) -> bool:
    return (isinstance(error, OSError) and error.errno == errno.ENOSPC) or any(words in str(error) for words in _FULL)
