"""The folders that sandboxes are made in, and what becomes of them afterwards."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from services.orchestrator.sandbox import Isolation, copy_etc
from services.orchestrator.state import Outcome
from shared.config import Config
from shared.errors import SandboxError
from shared.events import RolloutFinished

log = logging.getLogger(__name__)

_ETC = "etc"


class Sandboxes:
    """Sandbox folders of a run, under `orchestrator.work_root` or the system's temporary folder.

    Raises:
        SandboxError: their folder cannot be made, or belongs to somebody else.
    """

    def __init__(self, config: Config, isolation: Isolation) -> None:
        self._keep = config.orchestrator.keep
        top = Path(config.orchestrator.work_root or tempfile.gettempdir())
        self.root = top / f"openforge-{config.run.id}"
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self.root.lstat().st_uid != os.geteuid():
                raise SandboxError(f"{self.root} belongs to another user; set orchestrator.work_root")
            self.root.chmod(0o711 if isolation.kind == "uid" else 0o700)
            self.isolation = replace(isolation, etc=str(self.root / _ETC))
            if isolation.kind == "bubblewrap":
                copy_etc(self.root / _ETC)
        except OSError as e:
            raise SandboxError(f"{self.root}: {e}; set orchestrator.work_root to a folder that can be written to") from e

    def folder(self, session_id: str) -> Path:
        """Where a session's sandbox lies."""
        return self.root / session_id

    def settle(self, session_id: str, outcome: Outcome) -> None:
        """Removes a sandbox, unless `orchestrator.keep` says otherwise. Blocks."""
        kept = self._keep == "all" or (self._keep == "failed" and not isinstance(outcome, RolloutFinished))
        folder = self.folder(session_id)
        if kept or not folder.exists():
            return
        try:
            _open_up(folder)
            shutil.rmtree(folder)
        except OSError as e:
            log.warning("the sandbox %s could not be removed: %s", folder, e)

    def close(self) -> None:
        """Removes the folder if no sandbox was kept."""
        shutil.rmtree(self.root / _ETC, ignore_errors=True)
        if not any(self.root.iterdir()):
            self.root.rmdir()


def _open_up(folder: Path) -> None:
    """Agents may have closed folders of their own."""
    for inner, names, _ in os.walk(folder):
        for name in names:  # opened before they are walked into
            path = os.path.join(inner, name)
            if not os.path.islink(path) and os.stat(path).st_uid == os.geteuid():
                os.chmod(path, 0o700)
