"""Runners as processes: whether one lives, which it is, and how it is ended with all below it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

KILL_S = 5.0
"""How long killed processes may take to be gone."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process that cannot be mistaken for a later one of its number: `fd` is a pidfd."""

    pid: int
    fd: int


def open_process(pid: int) -> Process | None:
    """The process of a number; None if there is none."""
    try:
        return Process(pid, os.pidfd_open(pid))
    except ProcessLookupError:
        return None


def send(process: Process, number: signal.Signals) -> bool:
    """Sends a signal; false if the process is gone."""
    try:
        signal.pidfd_send_signal(process.fd, number)
    except ProcessLookupError:
        return False
    return True


def held(process: Process) -> Process:
    """The same process by a file of its own, for who comes to it later: the first one is closed when the process ends, and its
    number may then be another process's."""
    return Process(process.pid, os.dup(process.fd))


def kill_tree(process: Process) -> None:
    """Kills a process and all below it, and closes its file. Blocks for `KILL_S` seconds at most.

    It is stopped first: it adopts what its children leave behind, and could start something new."""
    try:
        if not send(process, signal.SIGSTOP):
            return
        until = time.monotonic() + KILL_S
        while (living := _below(process.pid)) and time.monotonic() < until:
            for below in living:
                with contextlib.suppress(psutil.NoSuchProcess):
                    below.kill()
            time.sleep(0.01)
        send(process, signal.SIGKILL)
    finally:
        os.close(process.fd)


def locked(path: Path) -> bool:
    """Whether somebody holds the lock on a file."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def sandboxed(pid: int) -> int | None:
    """The first process below `pid` that sees processes of its own sandbox only; None if there is none."""
    own = _namespace(os.getpid())
    return next((below.pid for below in _below(pid) if _namespace(below.pid) not in (own, None)), None)


def _below(pid: int) -> list[psutil.Process]:
    try:
        found = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [process for process in found if _living(process)]


def _living(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _namespace(pid: int) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return None
