"""Folders of results: there whole or not at all, and found again by their name."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK = ".lock"


def put(save: Callable[[Path], None], target: Path) -> None:
    """Saves a result, unless another process did meanwhile. What a killed one left half-saved goes."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with _alone(target.parent / LOCK):
        for left in target.parent.glob(f"{target.name}.*"):
            shutil.rmtree(left)
        if not target.is_dir():
            save_whole(save, target)


def save_whole(save: Callable[[Path], None], target: Path) -> None:
    """Saves under another name first, which goes with whatever interrupts it.

    Raises:
        OSError: the disk is full, or the target is there.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f"{target.name}.", ignore_cleanup_errors=True) as scratch:
        made = Path(scratch, "made")
        save(made)
        made.rename(target)


@contextmanager
def _alone(file: Path) -> Iterator[None]:
    """Waits until no other process is in here; one that is killed is not any more."""
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
