"""Shows programs another time than the real one. Few imports, as in `phases.py`."""

from __future__ import annotations

import os
import time

LIBRARY = "libfaketimeMT.so.1"
NAME = "openforge-clock"
SHARED = (f"sem.{NAME}", NAME)
"""Files of the semaphore and of the memory that the library of all processes shares."""
_OFF_S = 30.0  # by so much a program may be late on a busy machine
_SAID = 400
_FREE, _FOR_PROCESSES = 1 << 30, 128
"""A semaphore's words: how often it can be taken, so that one who is killed with it keeps nobody waiting (nothing that it
guards changes), and that several processes take it."""
_SINCE_BOOT = 3
"""Clocks that count from the start of the machine: CLOCK_MONOTONIC, its raw one, CLOCK_BOOTTIME."""


class Clock:
    """The time that an attempt's programs see: all of them the same, from its first program on."""

    def __init__(self) -> None:
        self._ahead: float | None = None

    def apply(self, env: dict[str, str], begins: float, library: str, folder: str) -> str:
        """Sets the clock in a program's environment; gives why that has no effect here, empty if it has.

        Args:
            env: of the program.
            begins: seconds since 1970 that it shows when the first program starts.
            library: that shows it.
            folder: for what it shares, which is written here.
        """
        first, now = self._ahead is None, time.time()
        self._ahead = begins - now if self._ahead is None else self._ahead
        env["FAKETIME"] = f"{self._ahead:+.3f}"
        for name, content in zip(SHARED, shared(round(self._ahead * 1000)), strict=True):
            _write(f"{folder}/{name}", content)
        return unfit(env, begins, library) if first else ""


def shared(ahead_ms: int) -> tuple[bytes, bytes]:
    """A semaphore of glibc's, and when each clock began.

    The library takes every clock for at the shown date when it began, those that count from the start of the machine as well.
    It can be told not to show these, but up to 0.9.10 it waits by them all the same: Python's sleep fails and waits for
    conditions end at once (github.com/wolfcw/libfaketime/issues/426). Here the time of day begins in 1970, and they begin as
    much later as it is ahead: so what it takes them for is what the kernel has.
    """
    seconds, ms = divmod(ahead_ms, 1000)
    ticks, index, day, since_boot = 0, 0, (0, 0), (seconds, ms * 1_000_000)
    return _words(_FREE, _FOR_PROCESSES, 0, 0), _words(ticks, index, *day, *since_boot * _SINCE_BOOT)


def _words(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(8, "little", signed=True) for number in numbers)


def _write(path: str, content: bytes) -> None:
    """Whoever runs programs here uses it; a second try of a phase finds it."""
    try:
        file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW)
    except FileExistsError:
        return
    os.write(file, content)
    os.fchmod(file, 0o666)
    os.close(file)


def unfit(env: dict[str, str], wanted: float, library: str) -> str:
    """Why programs here cannot be shown another time, by asking one; empty if they can."""
    if not os.path.exists(library):
        return f"there is no {library}; build the harness image anew, or leave orchestrator.clock empty"
    alone = {name: value for name, value in env.items() if name != "FAKETIME_SHARED"}  # not every sandbox's files are here
    said = _said({**alone, "LD_PRELOAD": library})
    digits = said.strip()
    if digits.isdecimal() and abs(int(digits) - wanted) < _OFF_S:
        return ""
    return f"the clock cannot be set here; `date +%s` says {said!r}: programs need a glibc of 2.34 or later (Debian 12)"


def _said(env: dict[str, str]) -> str:
    """What the sandbox's own `date` says. By no shell: what the library keeps in /dev/shm would stay after it."""
    read, write = os.pipe()
    actions = [(os.POSIX_SPAWN_DUP2, write, 1), (os.POSIX_SPAWN_DUP2, write, 2), (os.POSIX_SPAWN_CLOSE, read)]
    try:
        pid = os.posix_spawnp("date", ["date", "+%s"], env, file_actions=actions)
    except OSError as e:
        os.close(write)
        os.close(read)
        return str(e)
    os.close(write)
    with open(read, "rb") as file:
        said = file.read(_SAID)
    os.waitpid(pid, 0)
    return said.decode("utf-8", "replace")
