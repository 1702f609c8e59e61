"""The processes of a rollout: all that descend from the runner, until they are gone."""

from __future__ import annotations

import os
import signal
import time

from services.orchestrator.runner.ending import others, signal_all
from services.orchestrator.runner.loop import READ
from services.orchestrator.runner.system import (
    PR_SET_CHILD_SUBREAPER,
    PR_SET_DUMPABLE,
    PR_SET_NO_NEW_PRIVS,
    prctl,
    read_signals,
    signal_file,
)

TYPE_CHECKING = False  # importing typing would double the time of a start
if TYPE_CHECKING:
    from collections.abc import Callable

    from services.orchestrator.runner.loop import Loop

KILL_S = 10.0  # how long killed processes may take to be gone
LOOK_S = 0.05  # between two looks at processes whose end nobody tells


class Failure(Exception):
    """The attempt cannot go on; the text says why."""


class Processes:
    """Makes this process one that can answer for others: it adopts what they leave behind, is told of their ends, and neither
    it nor they can become more than they are.

    Args:
        loop: tells of signals.

    Attributes:
        cancelled: SIGTERM came.
        exit_code: of the program that is followed, once it ended.
        used: `cpu_s` of all that ended since then, and `memory_mb` of the largest.
    """

    def __init__(self, loop: Loop) -> None:
        self.cancelled = False
        self.exit_code: int | None = None
        self.used = {"cpu_s": 0.0, "memory_mb": 0.0}
        self._loop = loop
        self._program = 0
        self._childless = True
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # in a pod agent and runner are one user
        self._signals = signal_file({signal.SIGTERM, signal.SIGCHLD})
        loop.watch(self._signals, READ, self._on_signal)
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        prctl(PR_SET_DUMPABLE, 0)  # a program of the same user can neither trace it nor read its memory

    def follow(self, pid: int) -> None:
        """The program is that child."""
        self._program, self.exit_code, self._childless = pid, None, False
        self.used = {"cpu_s": 0.0, "memory_mb": 0.0}

    def run_until(self, done: Callable[[], bool], until: float) -> bool:
        """Handles what comes until something is so; false if the time `until` came first."""
        while not done():
            left = until - time.monotonic()
            if left <= 0:
                return False
            self._loop.turn(min(left, LOOK_S) if os.getpid() == 1 else left)
        return True

    def end(self, grace_s: float, *, spare_program: bool = False) -> None:
        """Ends every process: SIGTERM (not to the program, if it is to be spared), `grace_s`, then SIGKILL until none is left.

        Raises:
            Failure: some could not be killed.
        """
        self._childless = False  # until the kernel says that it is so
        self._reap()
        if self._alone():
            return
        signal_all(signal.SIGTERM, {self._program} if spare_program else set())
        if self.run_until(self._alone, time.monotonic() + grace_s):
            return
        until = time.monotonic() + KILL_S
        while not self._alone():  # again and again: a process may fork between the look and the kill
            if time.monotonic() > until:
                raise Failure("processes of the rollout could not be killed")
            signal_all(signal.SIGSTOP, set())  # a stopped one does not fork
            signal_all(signal.SIGKILL, set())
            self.run_until(self._alone, time.monotonic() + LOOK_S)

    def _alone(self) -> bool:
        return self._childless and not others()

    def _on_signal(self, _: int) -> None:
        for number, sender in read_signals(self._signals):
            if number == signal.SIGTERM and not (os.getpid() == 1 and sender):  # a container's own processes may not end it
                self.cancelled = True
        self._reap()

    def _reap(self) -> None:
        try:
            while (reaped := os.wait4(-1, os.WNOHANG))[0]:
                pid, status, usage = reaped
                self.used["cpu_s"] = round(self.used["cpu_s"] + usage.ru_utime + usage.ru_stime, 3)
                self.used["memory_mb"] = round(max(self.used["memory_mb"], usage.ru_maxrss / 1024), 1)
                if pid == self._program:
                    self.exit_code = os.waitstatus_to_exitcode(status)
        except ChildProcessError:
            self._childless = True
