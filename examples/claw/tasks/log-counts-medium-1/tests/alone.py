"""Lets a verifier run what the agent wrote: it finds nothing of the verifier, and nothing of it goes on afterwards."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import time
from pathlib import Path

_DUMPABLE, _SUBREAPER = 4, 36
_ENDED_S = 10.0


def hide() -> None:
    """Before: the verifier's files are removed, if they are a copy (no task lies around them); its memory is closed to others
    of its user; and it adopts whatever is left of what it starts."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_DUMPABLE, 0, 0, 0, 0)
    prctl(_SUBREAPER, 1, 0, 0, 0)
    tests = Path(__file__).parent
    if (tests / "check.py").exists() and not (tests.parent / "task.toml").exists():
        shutil.rmtree(tests, ignore_errors=True)


def end_all() -> None:
    """After: ends all processes that are left, so that nobody can write a reward later on."""
    until = time.monotonic() + _ENDED_S
    while (children := _children()) and time.monotonic() < until:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
        for pid in children:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _children() -> list[int]:
    """Children of this process; theirs become so when they end."""
    found = []
    for name in os.listdir("/proc"):
        try:
            fields = Path("/proc", name, "stat").read_text().rpartition(")")[2].split() if name.isdecimal() else []
        except OSError:
            continue
        if fields and int(fields[1]) == os.getpid():
            found.append(int(name))
    return found
