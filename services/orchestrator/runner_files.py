"""The runner's work on files: what a phase starts from, and what is taken over from it. Few imports, as in `runner.py`."""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False  # importing typing would double the time of a start
if TYPE_CHECKING:
    from services.orchestrator.spec import Phase

COLLECT_BYTES = 65536


def lay_out(phase: Phase, owner: int | None) -> None:
    """Makes a phase's folders, copies and files afresh; `owner` gets them. Links that an agent left are not followed."""
    for path in phase["fresh"]:
        remove(path)
        os.makedirs(path)
    for copy in phase["copies"]:
        copy_tree(copy["source"], copy["target"], copy["skip"])
    for path, text in phase["files"].items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    for path in phase["executable"]:
        os.chmod(path, 0o755)
    if owner is not None:
        for path in phase["fresh"]:
            os.chown(path, owner, owner)
            for folder, folders, files in os.walk(path):
                for name in folders + files:
                    os.lchown(os.path.join(folder, name), owner, owner)


def remove(path: str) -> None:
    """Removes a file, a link or a whole tree, if it is there."""
    if os.path.islink(path) or os.path.isfile(path):
        os.unlink(path)
    for folder, folders, files in os.walk(path, topdown=False):
        for name in files + folders:
            inner = os.path.join(folder, name)
            if name in files or os.path.islink(inner):
                os.unlink(inner)
            else:
                os.rmdir(inner)
        if folder == path:
            os.rmdir(path)


def copy_tree(source: str, target: str, skip: list[str]) -> None:
    """Copies a tree with its modes and links; top-level names in `skip` are left out. A missing source is an empty one."""
    for folder, folders, files in os.walk(source):
        if folder == source:
            folders[:], files[:] = [f for f in folders if f not in skip], [f for f in files if f not in skip]
        here = os.path.normpath(os.path.join(target, os.path.relpath(folder, source)))
        for name in files + folders:
            inner, to = os.path.join(folder, name), os.path.join(here, name)
            if os.path.islink(inner):
                os.symlink(os.readlink(inner), to)
            elif name in folders:
                os.mkdir(to)
            else:
                copy_file(inner, to)


def copy_file(source: str, target: str) -> None:
    with open(source, "rb") as read, open(target, "wb") as write:
        while chunk := read.read(1 << 20):
            write.write(chunk)
        os.fchmod(write.fileno(), stat.S_IMODE(os.fstat(read.fileno()).st_mode) | 0o444)


def collect(paths: list[str]) -> dict[str, str]:
    """Texts of those of the files that are there, by their names; links are not followed, long files are cut."""
    texts = {}
    for path in paths:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue
        with open(fd, "rb") as file:
            if stat.S_ISREG(os.fstat(fd).st_mode):
                texts[os.path.basename(path)] = file.read(COLLECT_BYTES).decode("utf-8", "replace")
    return texts


def tail(path: str) -> str:
    with open(path, "rb") as file:
        return file.read()[-400:].decode("utf-8", "replace").strip()
