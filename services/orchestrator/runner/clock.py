"""Shows programs another time than the real one. Few imports, as in `phases.py`."""

from __future__ import annotations

import os
import time

LIBRARY = "libfaketimeMT.so.1"
SHELL = "/bin/sh"
_OFF_S = 30.0  # by so much a program may be late on a busy machine
_SAID = 400


class Clock:
    """The time that an attempt's programs see: all of them the same, from its first program on."""

    def __init__(self) -> None:
        self._ahead: float | None = None

    def apply(self, env: dict[str, str], begins: float, library: str) -> str:
        """Sets the clock in a program's environment; gives why that has no effect here, empty if it has.

        Args:
            env: of the program.
            begins: seconds since 1970 that it shows when the first program starts.
            library: that shows it.
        """
        first, now = self._ahead is None, time.time()
        self._ahead = begins - now if self._ahead is None else self._ahead
        env["FAKETIME"] = f"{self._ahead:+.3f}"
        return unfit(env, begins, library) if first else ""


def unfit(env: dict[str, str], wanted: float, library: str) -> str:
    """Why programs here cannot be shown another time, by asking one; empty if they can."""
    if not os.path.exists(library):
        return f"there is no {library}; build the harness image anew, or leave orchestrator.clock empty"
    said = _said({**env, "LD_PRELOAD": library})
    digits = said.strip()
    if digits.isdecimal() and abs(int(digits) - wanted) < _OFF_S:
        return ""
    return f"the clock cannot be set here; `date +%s` says {said!r}: programs need a glibc of 2.34 or later (Debian 12)"


def _said(env: dict[str, str]) -> str:
    """What the sandbox's own `date` says."""
    read, write = os.pipe()
    actions = [(os.POSIX_SPAWN_DUP2, write, 1), (os.POSIX_SPAWN_DUP2, write, 2), (os.POSIX_SPAWN_CLOSE, read)]
    try:
        pid = os.posix_spawn(SHELL, [SHELL, "-c", "exec date +%s"], env, file_actions=actions)
    except OSError as e:
        os.close(write)
        os.close(read)
        return str(e)
    os.close(write)
    with open(read, "rb") as file:
        said = file.read(_SAID)
    os.waitpid(pid, 0)
    return said.decode("utf-8", "replace")
