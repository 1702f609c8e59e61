"""The folders that local sandboxes are made in, and their end."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from services.orchestrator.sandbox import Isolation, copy_etc
from shared.config import Config
from shared.errors import SandboxError

_ETC = ".etc"
"""No session's name begins with a dot."""


def sandboxes_folder(config: Config) -> Path:
    """Where a run has its sandboxes on this machine."""
    return Path(config.orchestrator.work_root or tempfile.gettempdir()) / f"openforge-{config.run.id}"


def remove_left(root: Path) -> None:
    """Removes all sandboxes of a run that is no more, also those that were kept, as far as they are this user's."""
    if root.is_dir() and not root.is_symlink() and root.stat().st_uid == os.geteuid():
        _open_up(root)
        shutil.rmtree(root, ignore_errors=True)


class Sandboxes:
    """Sandbox folders of a run.

    Args:
        root: the folder that has them; it is made if need be.
        isolation: kind of sandbox.

    Raises:
        SandboxError: the folder cannot be made, or belongs to somebody else.
    """

    def __init__(self, root: Path, isolation: Isolation) -> None:
        self.root = root
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            if root.lstat().st_uid != os.geteuid():
                raise SandboxError(f"{root} belongs to another user; set orchestrator.work_root")
            root.chmod(0o711 if isolation.kind == "uid" else 0o700)
            self.isolation = replace(isolation, etc=str(root / _ETC))
            if isolation.kind == "bubblewrap":
                copy_etc(root / _ETC)
        except OSError as e:
            raise SandboxError(f"{root}: {e}; set orchestrator.work_root to a folder that can be written to") from e

    def folder(self, session_id: str) -> Path:
        """Where a session's sandbox lies."""
        return self.root / session_id

    def names(self) -> list[str]:
        """Sessions that have a sandbox."""
        return [entry.name for entry in self.root.iterdir() if entry.is_dir() and not entry.name.startswith(_ETC)]

    def remove(self, session_id: str) -> None:
        """Removes a sandbox, if it is there. Blocks.

        Raises:
            SandboxError: it cannot be removed.
        """
        folder = self.folder(session_id)
        if not folder.exists():
            return
        try:
            _open_up(folder)
            shutil.rmtree(folder)
        except OSError as e:
            raise SandboxError(f"the sandbox {folder} could not be removed: {e}") from e

    def close(self) -> None:
        """Removes the folder, or at least what no sandbox that was kept needs. Only when none runs any more."""
        shutil.rmtree(self.root / _ETC, ignore_errors=True)
        if not self.names():
            self.root.rmdir()


def _open_up(folder: Path) -> None:
    """Agents may have closed folders of their own."""
    for inner, names, _ in os.walk(folder):
        for name in names:  # opened before they are walked into
            path = os.path.join(inner, name)
            if not os.path.islink(path) and os.stat(path).st_uid == os.geteuid():
                os.chmod(path, 0o700)
