"""Ends processes of a rollout: all that descend from the runner, or all that there are where it is a container's first."""

# ruff: noqa: SIM105 - contextlib costs milliseconds at every start
from __future__ import annotations

import os


def signal_all(signum: int, spare: set[int]) -> None:
    """Sends a signal to all processes of the rollout but those in `spare`."""
    if os.getpid() == 1:
        for pid in _pids() - {1} - spare if spare else {-1}:
            _signal(pid, signum)
        return
    for pid in descendants():
        if pid not in spare:
            _signal(pid, signum)


def descendants() -> list[int]:
    """Pids of all living processes below this one."""
    children: dict[int, list[int]] = {}
    for pid in _pids():
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:  # it has ended, or is hidden from this user
            continue
        children.setdefault(int(fields[1]), []).append(pid)
    found = [os.getpid()]
    for pid in found:
        found += children.get(pid, [])
    return found[1:]


def others() -> bool:
    """Whether a container's first process is not alone: a command that was run in it is no child of it."""
    return os.getpid() == 1 and bool(_pids() - {1})


def _pids() -> set[int]:
    return {int(name) for name in os.listdir("/proc") if name.isdigit()}


def _signal(pid: int, signum: int) -> None:
    try:
        os.kill(pid, signum)
    except ProcessLookupError:
        pass
