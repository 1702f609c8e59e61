"""Carries one attempt of one rollout, one process an attempt (forked by `runner_server`), standard library only.

It outlives the orchestrator. For every phase of the spec (`agent`, then `verify`) it lays out files, starts the program under
a wall-clock limit, and ends *everything* that the program started before it goes on. What happened stands in the spec's
status file, which is replaced as a whole at every change:

    {"pid": 7, "phase": "verify", "error": null, "phases": {"agent": {"exit_code": 0, "timed_out": false, "seconds": 1.5, ...}}}

`phase` is `prepare`, the name of the phase that runs, `done`, `cancelled` (SIGTERM came) or `failed` (see `error`).
Imports are few on purpose: a fork costs what was loaded. The spec's fields are described in `spec.py`.
"""

# ruff: noqa: SIM105, SIM115 - contextlib costs milliseconds at every start
from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import time

from services.orchestrator.runner_files import collect, lay_out, tail

TYPE_CHECKING = False  # importing typing would double the time of a start
if TYPE_CHECKING:
    from collections.abc import Callable

    from services.orchestrator.spec import Phase, Spec, Status

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 36, 38
MARK_FD = 3  # the sandboxed side writes one line to it once the sandbox stands
KILL_S = 10.0  # how long killed processes may take to be gone
CHUNK = 65536

_prctl = ctypes.CDLL(None).prctl


class Failure(Exception):
    """The attempt cannot go on; the text says why."""


class Output:
    """What a program prints: the first `limit` bytes go to a file, the rest is read and dropped."""

    def __init__(self, path: str, limit: int) -> None:
        self.fd, self.write_fd = os.pipe()
        os.set_blocking(self.fd, False)
        self.open = True
        self._file = open(path, "wb", buffering=0)
        self._left, self._limit, self._dropped = limit, limit, 0

    def drain(self) -> None:
        """Takes what is there now; never blocks."""
        try:
            while chunk := os.read(self.fd, CHUNK):
                kept = chunk[: self._left]
                self._left -= len(kept)
                self._dropped += len(chunk) - len(kept)
                if kept:
                    self._file.write(kept)
            self.open = False
        except BlockingIOError:
            pass

    def close(self) -> None:
        self.drain()
        if self._dropped:
            self._file.write(b"\n[%d bytes more were dropped: the limit is %d]\n" % (self._dropped, self._limit))
        self._file.close()
        os.close(self.fd)


class Runner:
    """The phases of one spec."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.status: Status = {"pid": os.getpid(), "phase": "prepare", "error": None, "phases": {}}
        self.cancelled = False
        self.child = 0
        self.exit_code: int | None = None
        self.childless = True
        self.wake_fd, wake_write = os.pipe()
        for fd in (self.wake_fd, wake_write):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._cancel)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})  # held back until now, so that none is lost
        _prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        _prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)

    def run(self) -> None:
        """All phases; the last status is final whatever happens."""
        try:
            self.report("prepare")
            for phase in self.spec["phases"]:
                if self.cancelled:
                    break
                self.carry_out(phase)
            self.report("cancelled" if self.cancelled else "done")
        except (OSError, Failure) as e:
            self.end_all(set())
            self.status["error"] = f"{self.status['phase']}: {e}"
            self.report("failed")

    def report(self, phase: str) -> None:
        """Replaces the status file."""
        self.status["phase"] = phase
        path = self.spec["status"]
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(self.status, file)
        os.replace(path + ".new", path)

    def carry_out(self, phase: Phase) -> None:
        """One phase: files, program, end of the program's tree, result."""
        lay_out(phase, self.spec["owner"])
        self.report(phase["name"])
        output = Output(phase["log"], self.spec["log_bytes"])
        mark_fd, mark_write = os.pipe()
        started = time.monotonic()
        self.exit_code, self.childless = None, False
        self.child = spawn(phase, output.write_fd, mark_write)
        os.close(output.write_fd)
        os.close(mark_write)
        try:
            in_time = self.run_until(lambda: self.exit_code is not None or self.cancelled, started + phase["timeout_s"], output)
            seconds = time.monotonic() - started
            self.end_all({self.child} if phase["monitored"] else set(), output)
        finally:
            output.close()
        stands = os.read(mark_fd, 1)
        os.close(mark_fd)
        if not stands and not self.cancelled:
            raise Failure(f"the sandbox could not be set up: {tail(phase['log']) or 'it said nothing'}")
        self.status["phases"][phase["name"]] = {
            "exit_code": self.exit_code, "timed_out": not in_time, "seconds": round(seconds, 4),
            "collected": collect(phase["collect"]),
        }  # fmt: skip

    def run_until(self, done: Callable[[], bool], until: float, output: Output | None) -> bool:
        """Drains output and reaps children until `done()`. False if the time `until` came first."""
        poller = select.poll()
        poller.register(self.wake_fd, select.POLLIN)
        if output and output.open:
            poller.register(output.fd, select.POLLIN)
        while not done():
            left = until - time.monotonic()
            if left <= 0:
                return False
            poller.poll(left * 1000 + 1)
            if output and output.open:
                output.drain()
                if not output.open:
                    poller.unregister(output.fd)
            self._reap()
        return True

    def end_all(self, spare: set[int], output: Output | None = None) -> None:
        """Ends every descendant: SIGTERM (not to `spare`), a grace period, then SIGKILL until none is left.

        Raises:
            Failure: some could not be killed.
        """
        self._reap()
        if self.childless:
            return
        signal_all(signal.SIGTERM, spare)
        if self.run_until(lambda: self.childless, time.monotonic() + self.spec["grace_s"], output):
            return
        until = time.monotonic() + KILL_S
        while not self.childless:  # again and again: a process may fork between the look and the kill
            if time.monotonic() > until:
                raise Failure("processes of the rollout could not be killed")
            signal_all(signal.SIGKILL, set())
            self.run_until(lambda: self.childless, time.monotonic() + 0.05, output)

    def _reap(self) -> None:
        try:
            os.read(self.wake_fd, CHUNK)
        except BlockingIOError:
            pass
        try:
            while (reaped := os.waitpid(-1, os.WNOHANG)) != (0, 0):
                if reaped[0] == self.child:
                    self.exit_code = os.waitstatus_to_exitcode(reaped[1])
        except ChildProcessError:
            self.childless = True

    def _cancel(self, *_: object) -> None:
        self.cancelled = True


def spawn(phase: Phase, output: int, mark: int) -> int:
    """Starts the phase's program in a session of its own. It dies with the runner."""
    runner = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.dup2(mark, MARK_FD)
        os.set_inheritable(MARK_FD, True)
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() == runner:
            os.chdir(phase["cwd"])
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            os.execve(phase["argv"][0], phase["argv"], phase["env"])
    except OSError as e:
        os.write(1, str(e).encode())
    finally:
        os._exit(127)


def descendants() -> list[int]:
    """Pids of all living processes below this one."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            children.setdefault(int(fields[1]), []).append(int(name))
    found = [os.getpid()]
    for pid in found:
        found += children.get(pid, [])
    return found[1:]


def signal_all(signum: int, spare: set[int]) -> None:
    for pid in descendants():
        if pid not in spare:
            try:
                os.kill(pid, signum)
            except ProcessLookupError:
                pass


def main(spec: str) -> None:
    """Carries out the spec in a file."""
    with open(spec, encoding="utf-8") as spec_file:
        Runner(json.load(spec_file)).run()
