"""Folders for temporary files. Each goes with its owner, or, when that was killed, with the next one that comes.

Much of what a stack starts leaves files in TMPDIR although it ends well, and all of it does when it is killed: vLLM its sockets
and meeting points, veRL, wandb and Ray their locks, folders and logs.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from services.orchestrator.backends.processes import locked
from shared.errors import ConfigError

_PREFIX, _RANDOM = "openforge.", 3  # bytes
_LOCK = "in-use"
_SOCKETS = Path("/proc/net/unix")
_LONGEST = 22
"""Bytes of the path of the folder that has them: sockets lie below, Ray's with 68 bytes more, and the kernel takes 107."""


def new_scratch() -> Path:
    """A path for one, which is short. Nothing is made there yet."""
    return _place() / f"{_PREFIX}{secrets.token_hex(_RANDOM)}"


@contextmanager
def scratch(path: Path | None = None) -> Iterator[Path]:
    """Such a folder while the context lasts, for this user alone. What killed owners left is removed.

    Args:
        path: from `new_scratch`; by default a new one.

    Raises:
        ConfigError: it cannot be made.
    """
    path = path or new_scratch()
    sweep()
    lock = _make(path)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)
        sweep()  # what a killed stack's processes still had when this one began


def sweep() -> None:
    """Removes what killed owners left and nobody has a use for any more."""
    left = [folder for folder in _place().glob(f"{_PREFIX}{'?' * _RANDOM * 2}") if _is_left(folder)]
    if left:
        used = _used()
        for folder in left:
            if not any(Path(path).is_relative_to(folder) for path in used):
                shutil.rmtree(folder, ignore_errors=True)


def _place() -> Path:
    wanted = tempfile.gettempdir()
    return Path(wanted if len(os.fsencode(wanted)) <= _LONGEST else "/tmp")


def _make(path: Path) -> int:
    """Makes it and gives its lock. It gets its name once it is locked, so that nobody takes it for left."""
    unnamed = path.with_name(f"{path.name}.new")
    try:
        unnamed.mkdir(mode=0o700)
        lock = os.open(unnamed / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        unnamed.rename(path)
    except OSError as e:
        raise ConfigError(f"{path}: a folder for temporary files cannot be made: {e.strerror}; set TMPDIR to another") from e
    return lock


def _is_left(folder: Path) -> bool:
    """Whether it is this user's, and its owner is gone."""
    with contextlib.suppress(OSError):
        ours = folder.lstat().st_uid == os.geteuid() and folder.is_dir() and not folder.is_symlink()
        return ours and (folder / _LOCK).exists() and not locked(folder / _LOCK)
    return False


def _used() -> set[str]:
    """Where processes have their temporary files, and their sockets: those of a killed stack take seconds to end."""
    found = {(process.info["environ"] or {}).get("TMPDIR", "") for process in psutil.process_iter(["environ"])}
    with contextlib.suppress(OSError):
        found |= {line.split()[7] for line in _SOCKETS.read_text().splitlines()[1:] if len(line.split()) > 7}
    return found - {""}
