"""Run folders on the disk: how much they have, and how they go."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from services.dev.archives import run_folders
from services.dev.pruning.choose import Found
from services.dev.stack import is_running
from services.orchestrator.backends.processes import locked
from services.orchestrator.records import LOG
from services.orchestrator.sandboxes import remove_left, sandboxes_folder
from shared.config import load_config
from shared.errors import ConfigError

_GONE = ".pruned"
"""In the folder of the runs: those that are being removed, which are no runs any more."""
_BLOCK = 512  # what the kernel counts blocks in


def find(root: Path, looked: Callable[[str], None] = lambda _: None) -> list[Found]:
    """The runs of a folder; `looked` is told of each. Links are no runs."""
    found = []
    for folder in run_folders(root):
        if not folder.is_symlink():
            looked(folder.name)
            found.append(look(folder))
    return found


def look(folder: Path) -> Found:
    """How a run stands now."""
    return Found(folder.name, *measure(folder), is_running(folder))


def measure(folder: Path) -> tuple[int, float]:
    """Bytes that a folder takes on the disk, and when something in it was last written (unix time)."""
    size, written, seen = 0, folder.stat().st_mtime, set()
    for where, _, names in os.walk(folder):
        for name in names:
            try:
                stat = os.lstat(os.path.join(where, name))
            except FileNotFoundError:  # the run lives
                continue
            written = max(written, stat.st_mtime)
            if stat.st_ino not in seen:  # served weights are links to checkpoints
                seen.add(stat.st_ino)
                size += stat.st_blocks * _BLOCK
    return size, written


def remove(root: Path, run_id: str) -> None:
    """Removes a run: all at once for whoever looks at the runs, and for good; also sandboxes that it left on this machine.

    Raises:
        OSError: not all of it may be removed; what is left is removed with the next one.
    """
    gone = root / _GONE
    gone.mkdir(exist_ok=True)
    _remove_sandboxes(root / run_id)
    (root / run_id).rename(gone / run_id)
    shutil.rmtree(gone)


def _remove_sandboxes(folder: Path) -> None:
    """Those of a run that was killed, and those that it kept. None where a runner still lives."""
    with contextlib.suppress(ConfigError):  # of a run that an older version made: then they stay
        config = load_config(folder / "config.json")
        if config.run.id == folder.name and not any(locked(log) for log in (folder / "rollouts").glob(f"*/{LOG}")):
            remove_left(sandboxes_folder(config))


def remove_rest(root: Path) -> None:
    """Removes what an interrupted removal left.

    Raises:
        OSError: not all of it may be removed.
    """
    if (root / _GONE).exists():
        shutil.rmtree(root / _GONE)
