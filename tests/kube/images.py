"""Images for the real node, made of programs of this machine: there is no registry here. Never publish them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.kube.cluster import REPO

TOOLS = (
    "sh",
    "cat",
    "chmod",
    "cp",
    "head",
    "id",
    "kill",
    "ls",
    "mkdir",
    "ps",
    "rm",
    "sleep",
    "stat",
    "tar",
    "touch",
    "true",
    "dd",
    "ln",
)
TASK, HARNESS, CHECKS = "localhost/task:1", "localhost/harness-react:1", "localhost/checks:1"


def task_image(archive: Path, folder: Path) -> None:
    """A task's image: some tools, and a working folder that belongs to root."""
    root = folder / "task"
    _tools(root)
    work = root / "srv/work"
    work.mkdir(parents=True)
    (work / "given.txt").write_text("given\n")
    (work / ".hidden").write_text("hidden\n")
    (work / "folder").mkdir()
    (work / "folder/inner.txt").write_text("inner\n")
    _archive(archive, TASK, root)


def harness_image(archive: Path, folder: Path, entry: str) -> None:
    """A harness image: what is copied to /openforge, with the runner `entry`, a shell script."""
    root = folder / "harness"
    _tools(root)
    (root / "openforge").mkdir()
    run = root / "openforge/run"
    run.write_text(entry)
    run.chmod(0o755)
    _archive(archive, HARNESS, root)


def checks_image(archive: Path, folder: Path, test: str) -> None:
    """The image of a verifier in a sandbox of its own: it has its tests, and a working folder."""
    root = folder / "checks"
    _tools(root)
    (root / "tests").mkdir()
    (root / "tests/test.sh").write_text(test)
    (root / "app").mkdir()
    (root / "app/seed.txt").write_text("own\n")
    _archive(archive, CHECKS, root)


def _tools(root: Path) -> None:
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/lib").mkdir()
    (root / "bin").symlink_to("usr/bin")
    (root / "lib").symlink_to("usr/lib")
    (root / "lib64").symlink_to("usr/lib")
    for name in TOOLS:
        found = shutil.which(name)
        assert found, f"this machine has no {name}"
        shutil.copy(found, root / "usr/bin" / name)
        for library in _libraries(found):
            (root / library.parent.relative_to("/")).resolve().mkdir(parents=True, exist_ok=True)
            shutil.copy(library, root / library.relative_to("/"))


def _libraries(program: str) -> list[Path]:
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return [Path(path) for path in re.findall(r"(/\S+) \(0x", listed)]


def _archive(archive: Path, name: str, root: Path) -> None:
    maker = [sys.executable, str(REPO / "scripts/image.py"), str(archive), name, str(root)]
    subprocess.run(maker, check=True, capture_output=True)
