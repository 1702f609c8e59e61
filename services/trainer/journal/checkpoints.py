"""Checkpoints of a run: the learner's files in veRL's layout, and beside them the state that they belong to."""

from __future__ import annotations

import logging
import os
import shutil
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import msgspec

from services.trainer.journal.journal import sync_folder
from services.trainer.journal.state import RunState
from services.trainer.ports import Learner

log = logging.getLogger(__name__)

STATE = "trainer_state.bin"
LATEST = "latest_checkpointed_iteration.txt"
_STEP, _PART = "global_step_", ".part-"
_CHECKSUM = struct.Struct("<I")


class Kept(msgspec.Struct, kw_only=True):
    """What is beside the learner's files.

    Attributes:
        cursor: number of the first record of the journal that the state does not have.
        state: of the run.
        files: sizes in bytes of the learner's files, by name.
    """

    cursor: int
    state: RunState
    files: dict[str, int] = {}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that is whole. `folder` is the learner's."""

    step: int
    folder: Path
    kept: Kept


class Checkpoints:
    """The checkpoints in a folder.

    Args:
        folder: gets a folder per checkpoint.
        keep: newest ones that are kept; 0 keeps all.
    """

    def __init__(self, folder: Path, keep: int = 0) -> None:
        self._folder = folder
        self._keep = keep

    def save(self, learner: Learner, kept: Kept) -> None:
        """Writes a checkpoint: all of it or nothing. Older ones go then.

        Raises:
            OSError: the disk is full or broken.
        """
        step = kept.state.step
        part, target = self._folder / f"{_PART}{step}", self._folder / f"{_STEP}{step}"
        shutil.rmtree(part, ignore_errors=True)
        learner.save_checkpoint(part / "actor", step)
        kept.files = {str(f.relative_to(part)): f.stat().st_size for f in sorted(part.rglob("*")) if f.is_file()}
        body = msgspec.msgpack.encode(kept)
        (part / STATE).write_bytes(_CHECKSUM.pack(zlib.crc32(body)) + body)
        _sync_tree(part)
        shutil.rmtree(target, ignore_errors=True)
        part.rename(target)
        sync_folder(self._folder)
        self._prune(step)

    def all(self) -> Iterator[Checkpoint]:
        """Those that are whole, the newest first; of others the log says what is wrong with them."""
        for step in self._steps():
            folder = self._folder / f"{_STEP}{step}"
            try:
                yield Checkpoint(step, folder / "actor", _read(folder))
            except (OSError, ValueError, msgspec.DecodeError) as e:
                log.warning("checkpoint %s is passed over: %s", folder, e)

    def oldest_needed(self) -> Kept | None:
        """From which on the journal is needed: the second newest, as the newest may prove unusable. None: all of it is."""
        newest = list(islice(self.all(), 2))
        return newest[1].kept if len(newest) == 2 else None

    def _prune(self, step: int) -> None:
        latest = self._folder / LATEST
        part = latest.with_suffix(".part")
        part.write_text(str(step), encoding="utf-8")
        part.replace(latest)
        for old in self._steps()[self._keep :] if self._keep else []:
            shutil.rmtree(self._folder / f"{_STEP}{old}")

    def _steps(self) -> list[int]:
        names = (f.name.removeprefix(_STEP) for f in self._folder.glob(f"{_STEP}*"))
        return sorted((int(name) for name in names if name.isdecimal()), reverse=True)


def _read(folder: Path) -> Kept:
    data = (folder / STATE).read_bytes()
    body = data[_CHECKSUM.size :]
    if data[: _CHECKSUM.size] != _CHECKSUM.pack(zlib.crc32(body)):
        raise ValueError(f"{STATE} is damaged")
    kept = msgspec.msgpack.decode(body, type=Kept)
    for name, size in kept.files.items():
        if (folder / name).stat().st_size != size:
            raise ValueError(f"{name} has not its {size} bytes")
    return kept


def _sync_tree(folder: Path) -> None:
    """Makes all files below a folder durable."""
    for file in folder.rglob("*"):
        if file.is_dir():
            sync_folder(file)
        else:
            descriptor = os.open(file, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    sync_folder(folder)
