"""Task folders are written: each as a whole or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import tomli_w

from services.dev.tasks.draft import Draft, inner_path
from services.dev.tasks.origin import FILE
from shared.errors import TaskError
from shared.task import load_task

PART = ".part"
_LEFT_OUT = shutil.ignore_patterns(".git", "__pycache__", "*.pyc", ".DS_Store", FILE)
Seed = Callable[[Path, str, Path], None]
"""Runs a script that makes the content of a working folder: script, working folder as it sees it, folder for the result."""


def write_task(draft: Draft, to: Path, note: str, licence: Path | None, seed: Seed) -> Path:
    """Writes a draft as a task folder.

    Args:
        draft: the task.
        to: folder of the set.
        note: for its ORIGIN file.
        licence: file to keep beside it.
        seed: runs the draft's script, if it has one.

    Returns:
        The folder.

    Raises:
        TaskError: there is one of that name, a file is missing, or what was written is no task.
        OSError: a file could not be read or written.
    """
    folder, part = to / draft.name, to / (draft.name + PART)
    if folder.exists():
        raise TaskError(f"there is a task {draft.name} in {to} already; import into an empty folder")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        _fill(draft, part, note, licence)
        task = load_task(part)
        if draft.seed:
            _seed(draft.seed, task.workdir, part, seed)
        part.rename(folder)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return folder


def _fill(draft: Draft, folder: Path, note: str, licence: Path | None) -> None:
    for path, source in draft.copies.items():
        _copy(source, folder / inner_path(path, "copy") if path else folder)
    texts = dict(draft.texts)
    if draft.toml is not None:
        texts["task.toml"] = tomli_w.dumps({key: value for key, value in draft.toml.items() if value != {}})
    for path, text in {**texts, FILE: note}.items():
        file = folder / inner_path(path, "file")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    if licence and not (folder / licence.name).exists():
        shutil.copyfile(licence, folder / licence.name)
    for script in (folder / "tests/test.sh", folder / "solution/solve.sh"):
        if script.is_file():
            script.chmod(0o755)


def _copy(source: Path, target: Path) -> None:
    if not source.exists():
        raise TaskError(f"{source.name}: no such file in the source")
    check_links(source)
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, ignore=_LEFT_OUT, dirs_exist_ok=True)
    else:
        shutil.copyfile(source, target)


def check_links(top: Path) -> None:
    """Looks whether links stay inside a tree.

    Raises:
        TaskError: one leads out of it: what it names would be this machine's.
    """
    for path in (top, *top.rglob("*")):
        if path.is_symlink() and not path.resolve().is_relative_to(top.resolve() if path != top else top.parent.resolve()):
            raise TaskError(f"{path.relative_to(top.parent)} is a link that leads out of the task")


def _seed(script: Path, workdir: str, folder: Path, seed: Seed) -> None:
    """The script's work takes the place of the script."""
    environment = folder / "environment"
    for extra in environment.glob("setup_workspace.py"):
        extra.unlink()
    seed(script, workdir, environment)
