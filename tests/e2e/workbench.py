"""A task's scripts without rollout and sandbox."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

PATH = "/usr/bin:/bin"


class Workbench:
    """A task's working folder, on the plain machine."""

    def __init__(self, task: Path, folder: Path) -> None:
        self.task, self.app, self.logs = task, folder / "app", folder / "logs"
        shutil.copytree(task / "environment", self.app, ignore=shutil.ignore_patterns("Dockerfile"))

    def run(self, script: str) -> None:
        env = {"PATH": PATH, "LOGS_DIR": str(self.logs)}
        subprocess.run([self.task / script], cwd=self.app, env=env, check=True, stderr=subprocess.DEVNULL)

    def score(self) -> str:
        self.run("tests/test.sh")
        return (self.logs / "verifier" / "reward.txt").read_text()
