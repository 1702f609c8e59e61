"""The runner's work on files: what a phase starts from, and what is taken over from it. Few imports, as in `phases.py`."""

from __future__ import annotations

import grp
import os
import pwd
import stat

TYPE_CHECKING = False  # importing typing would double the time of a start
if TYPE_CHECKING:
    from collections.abc import Iterable

    from services.orchestrator.spec import Phase

COLLECT_BYTES = 1200
"""Largest file that is taken over into a status, which has to stay small."""


class TaskFault(ValueError):
    """The attempt cannot go on because of what its task or image is; the text says why."""


def make_folders(phase: Phase) -> None:
    """Makes a phase's folders afresh. Links that an agent left are not followed."""
    for path in phase["fresh"]:
        empty(path)
    if phase["cwd"] not in phase["fresh"]:
        make_enterable(phase["cwd"])


def fill(phase: Phase) -> None:
    """Makes a phase's copies and files in its folders."""
    for copy in phase["copies"]:
        copy_tree(copy["source"], copy["target"], copy["skip"])
    for path, text in phase["files"].items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def hand_over(phase: Phase) -> None:
    """What has to run may be run, and the phase's user gets its folders."""
    for path in phase["executable"]:
        os.chmod(path, 0o755)
    if phase["user"] and os.geteuid() == 0:
        uid, gid = user_ids(phase["user"])
        for top in (*phase["fresh"], *phase["own"]):
            os.chown(top, uid, gid)
            for path in _below(top):
                os.lchown(path, uid, gid)


def user_ids(user: str) -> tuple[int, int]:
    """User and group id of a `user` or `user:group`, each a number or a name.

    Raises:
        TaskFault: there is no such name.
    """
    name, _, group = user.partition(":")
    try:
        uid = int(name) if name.isdecimal() else pwd.getpwnam(name).pw_uid
        if group:
            return uid, int(group) if group.isdecimal() else grp.getgrnam(group).gr_gid
        return uid, uid if name.isdecimal() else pwd.getpwnam(name).pw_gid
    except KeyError:
        raise TaskFault(f"there is no user or group {user!r} here; give its number") from None


def empty(path: str) -> None:
    """Makes an empty folder of whatever is there. A folder stays itself: something may be mounted on it."""
    if _made(path):
        return
    if os.path.islink(path):
        os.unlink(path)
    make_enterable(path)
    for folder, folders, _ in os.walk(path):
        for name in folders:  # before it is walked into
            _open_up(os.path.join(folder, name))
    for folder, folders, files in os.walk(path, topdown=False):
        for name in files + folders:
            inner = os.path.join(folder, name)
            if name in files or os.path.islink(inner):
                os.unlink(inner)
            else:
                os.rmdir(inner)


def _made(path: str) -> bool:
    """Makes a folder; false if something is there. The first to be made in a sandbox are made with those above them."""
    try:
        os.mkdir(path)
    except FileExistsError:
        return False
    except FileNotFoundError:
        os.makedirs(path, exist_ok=True)
    return True


def make_enterable(path: str) -> None:
    """Makes a folder, in the place of whatever else is there; one that is there lets its owner in. An agent that removes or
    closes its working folder must not thereby keep the verifier from its start."""
    if os.path.lexists(path) and not os.path.isdir(path):
        os.unlink(path)
    os.makedirs(path, exist_ok=True)
    _open_up(path)


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
                os.makedirs(to, exist_ok=True)
            else:
                copy_file(inner, to)


def copy_file(source: str, target: str) -> None:
    with open(source, "rb") as read, open(target, "wb") as write:
        while chunk := read.read(1 << 20):
            write.write(chunk)
        os.fchmod(write.fileno(), stat.S_IMODE(os.fstat(read.fileno()).st_mode) | 0o444)


def collect(paths: list[str]) -> tuple[dict[str, str], list[str]]:
    """Texts of those of the files that are there, by their names, and names of those that are too large. Links are not
    followed."""
    texts, too_large = {}, []
    for path in paths:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue
        with open(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                continue
            content = file.read(COLLECT_BYTES + 1)
        if len(content) > COLLECT_BYTES:
            too_large.append(os.path.basename(path))
        else:
            texts[os.path.basename(path)] = content.decode("utf-8", "replace")
    return texts, too_large


def size_of(tops: list[str]) -> int:
    """Bytes of disk that trees take. What changes meanwhile may be missed."""
    total = 0
    for top in tops:
        for path in _below(top):
            try:
                total += os.lstat(path).st_blocks * 512
            except OSError:
                continue
    return total


def _open_up(folder: str) -> None:
    """Gives an owner all rights to a folder back, if this process may. Without them only root can remove what is in it."""
    found = os.lstat(folder)
    closed = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_IRWXU != stat.S_IRWXU
    if closed and os.geteuid() in (0, found.st_uid):
        os.chmod(folder, stat.S_IMODE(found.st_mode) | stat.S_IRWXU)


def _below(top: str) -> Iterable[str]:
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            yield os.path.join(folder, name)
