"""Carries one attempt of one rollout, one process an attempt, standard library only.

It outlives the orchestrator. For every phase of the spec (`agent`, then `verify`) it lays out files, starts the program under
its limits, and ends *everything* that the program started before it goes on. What happened stands in the status, told at every
change:

    {"pid": 7, "phase": "verify", "error": null, "phases": {"agent": {"exit_code": 0, "timed_out": false, "seconds": 1.5, ...}}}

`phase` is `prepare`, the name of the phase that runs, `done`, `cancelled` (SIGTERM came) or `failed` (see `error`).
Imports are few on purpose: a fork costs what was loaded. The spec's fields are described in `spec.py`.
"""

from __future__ import annotations

import os
import signal
import socket
import time

from services.orchestrator.runner import cgroups, start
from services.orchestrator.runner.clock import Clock
from services.orchestrator.runner.ending import others, signal_all
from services.orchestrator.runner.files import collect, hand_over, lay_out, size_of
from services.orchestrator.runner.lease import Lease
from services.orchestrator.runner.loop import READ, Loop
from services.orchestrator.runner.output import Output
from services.orchestrator.runner.relay import Relay, listen
from services.orchestrator.runner.rewards import reached
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

    from services.orchestrator.spec import Limit, Phase, PhaseStatus, Spec, Status, Unpack

SET_UP_S = 60.0  # how long a sandbox may take to stand; its program's time begins then
KILL_S = 10.0  # how long killed processes may take to be gone
LAST_S = 60.0  # after the deadline, to end what still runs and to tell
STORAGE_S = 2.0  # between two looks at what is on the disk
LOOK_S = 0.05  # between two looks at processes whose end nobody tells


class Failure(Exception):
    """The attempt cannot go on; the text says why."""


class Runner:
    """The phases of one spec.

    Args:
        spec: what to do.
        tell: gets the status at every change.
        fetch: unpacks a package; not needed where the spec has none.
    """

    def __init__(self, spec: Spec, tell: Callable[[Status], None], fetch: Callable[[Unpack], None] | None = None) -> None:
        self.spec = spec
        self.status: Status = {"pid": os.getpid(), "phase": "prepare", "error": None, "phases": {}}
        if "strategy" in spec:
            self.status["strategy"] = spec["strategy"]
        self._tell, self._fetch = tell, fetch
        self._cancelled = self._late = False
        self._loop = Loop()
        self._clock = Clock()
        self._child = 0
        self._exit_code: int | None = None
        self._childless = True
        self._began = 0.0
        self._rusage = {"cpu_s": 0.0, "memory_mb": 0.0}
        self._relay: Relay | None = None
        self._handover: socket.socket | None = None
        self._mark: socket.socket | None = None
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # in a pod agent and runner are one user
        self._signals = signal_file({signal.SIGTERM, signal.SIGCHLD})
        self._loop.watch(self._signals, READ, self._on_signal)
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        prctl(PR_SET_DUMPABLE, 0)  # a program of the same user can neither trace it nor read its memory

    def run(self) -> None:
        """All phases; the last status is final whatever happens."""
        signal.signal(signal.SIGALRM, self._out_of_time)
        try:
            signal.setitimer(signal.ITIMER_REAL, self.spec["deadline_s"], LAST_S)
            self._report("prepare")
            for phase in self.spec["phases"]:
                if self._cancelled:
                    break
                self._carry_out(phase)
                if "at_least" in phase and not reached(self.status["phases"][phase["name"]]["collected"], phase["at_least"]):
                    break
            self._report("cancelled" if self._cancelled else "done")
        except (OSError, ValueError, Failure) as e:
            self.fail(f"{self.status['phase']}: {e}")

    def _out_of_time(self, *_: object) -> None:
        """Whatever the runner is at, be it a call that does not return; the second time without a word."""
        if self._late:
            os._exit(1)
        self._late = True
        raise Failure(f"the runner did not end within {self.spec['deadline_s']:g} s")

    def fail(self, why: str) -> None:
        """Ends everything, and tells why the attempt failed."""
        try:
            self._end_all(set())
        except Failure as e:
            why += f"; {e}"
        cgroups.give_up(self.spec["cgroups"])
        self.status["error"] = why
        self._report("failed")

    def _report(self, phase: str) -> None:
        self.status["phase"] = phase
        self._tell(self.status)

    def _carry_out(self, phase: Phase) -> None:
        """One phase: files, program, again if need be, result."""
        self._report(phase["name"])
        lay_out(phase)
        for package in phase["packages"]:
            if self._fetch is None:
                raise Failure(f"the package {package['package']} cannot be had here")
            self._fetch(package)
        hand_over(phase)
        if "clock" in phase and (why := self._clock.apply(phase["env"], **phase["clock"])):
            raise Failure(why)
        for left in range(max(1, phase["tries"]) - 1, -1, -1):
            result = self._try(phase)
            self.status["phases"][phase["name"]] = result
            if self._cancelled or not phase["tries"] or result["exit_code"] == 0:
                return
            if not left:
                raise Failure(f"not one of {phase['tries']} tries succeeded; the last one ended with {result['exit_code']}")
            self._run_until(lambda: self._cancelled, time.monotonic() + phase["interval_s"])

    def _try(self, phase: Phase) -> PhaseStatus:
        """The program runs once, and everything that it started ends."""
        cgroups.make(self.spec["cgroups"])
        output = Output(phase["log"], phase["name"], self.spec["log_bytes"])
        self._loop.watch(output.fd, READ, lambda _: self._drain(output))
        self._mark, theirs = socket.socketpair()
        self._mark.setblocking(False)
        self._mark.send(b"\n")
        self._loop.watch(self._mark.fileno(), READ, self._stand)
        self._began, started = 0.0, time.monotonic()
        try:
            with theirs:
                self._start(phase, output, theirs.fileno())
            limit = self._watch(phase)
            ended = time.monotonic()
            self._end_all({self._child} if phase["monitored"] else set())
        finally:
            self._close_relay()
            self._loop.watch(output.fd, 0, lambda _: None)
            output.close()
            self._stand(0)
        if not self._began and not self._cancelled:
            raise Failure(f"the sandbox could not be set up: {output.tail or 'it said nothing'}")
        return self._result(phase, limit, ended - (self._began if self._began < ended else started))

    def _start(self, phase: Phase, output: Output, mark: int) -> None:
        self._exit_code, self._childless, self._rusage = None, False, {"cpu_s": 0.0, "memory_mb": 0.0}
        ours, theirs = socket.socketpair() if phase["relay"] and phase["network"] == "own" else (None, None)
        self._child = start.start(phase, self.spec, output.write_fd, mark, theirs)
        os.close(output.write_fd)
        if ours and theirs:
            theirs.close()
            self._handover = ours
            self._loop.watch(ours.fileno(), READ, lambda _: self._take_over(ours, phase["relay"]))
        elif phase["relay"]:
            self._relay = Relay(self._loop, listen(), phase["relay"])

    def _stand(self, _: int) -> None:
        """The sandbox stands if the mark was taken before its socket was closed; else the connection counts as broken, once."""
        mark, self._mark = self._mark, None
        if mark is None:
            return
        self._loop.watch(mark.fileno(), 0, self._stand)
        with mark:
            try:
                mark.recv(1)
            except (BlockingIOError, ConnectionResetError):
                return
        self._began = time.monotonic()

    def _take_over(self, ours: socket.socket, target: str) -> None:
        """The program's process has made its network, and hands over a socket that listens in there, or has failed."""
        received = socket.recv_fds(ours, 16, 1)[1]
        self._close_relay()
        for fd in received:
            self._relay = Relay(self._loop, socket.socket(fileno=fd), target)

    def _close_relay(self) -> None:
        if self._handover:
            self._loop.watch(self._handover.fileno(), 0, lambda _: None)
            self._handover.close()
        if self._relay:
            self._relay.close()
        self._handover = self._relay = None

    def _result(self, phase: Phase, limit: Limit | None, seconds: float) -> PhaseStatus:
        groups = self.spec["cgroups"]
        collected, too_large = collect(phase["collect"])
        result: PhaseStatus = {
            "exit_code": self._exit_code, "timed_out": limit is not None, "limit": limit,
            "oom": cgroups.ran_out_of_memory(groups), "seconds": round(seconds, 4),
            "used": self._rusage | cgroups.used(groups), "collected": collected, "too_large": too_large,
        }  # fmt: skip
        cgroups.remove(groups)
        return result

    def _watch(self, phase: Phase) -> Limit | None:
        """Waits for the program's end; gives the limit that came first, if one did.

        Raises:
            Failure: the proxy was away for so long that nobody waits for this any more.
        """
        look, lease = time.monotonic() + STORAGE_S, Lease(phase["relay"], self.spec["lease_s"])
        stood = self._run_until(lambda: self._ended() or self._began > 0, time.monotonic() + SET_UP_S)
        wall = self._began + phase["timeout_s"] if stood else 0.0
        while not self._ended():
            now = time.monotonic()
            idle = self._idle_at(phase, now)
            if now >= wall:
                return "wall"
            if now >= idle:
                return "idle"
            if phase["storage_mb"] and now >= look:
                if size_of(phase["fresh"] + phase["own"]) > phase["storage_mb"] << 20:
                    return "storage"
                look = now + STORAGE_S
            if lease.over(now):
                raise Failure(f"the proxy was away for {self.spec['lease_s']:g} s, so nobody waits for this sandbox any more")
            self._loop.turn(min(wall, idle, look if phase["storage_mb"] else wall, lease.look_at) - now)
        lease.close()
        return None

    def _ended(self) -> bool:
        return self._exit_code is not None or self._cancelled

    def _idle_at(self, phase: Phase, now: float) -> float:
        """When the program will have been idle for too long: no call is waited for, and none came."""
        if not phase["idle_s"] or not self._relay:
            return now + phase["timeout_s"]
        return phase["idle_s"] + (now if self._relay.asked else self._relay.moved)

    def _run_until(self, done: Callable[[], bool], until: float) -> bool:
        """False if the time `until` came first."""
        while not done():
            left = until - time.monotonic()
            if left <= 0:
                return False
            self._loop.turn(min(left, LOOK_S) if os.getpid() == 1 else left)
        return True

    def _end_all(self, spare: set[int]) -> None:
        """Ends every process: SIGTERM (not to `spare`), a grace period, then SIGKILL until none is left.

        Raises:
            Failure: some could not be killed.
        """
        self._reap()
        if self._alone():
            return
        signal_all(signal.SIGTERM, spare)
        if self._run_until(self._alone, time.monotonic() + self.spec["grace_s"]):
            return
        until = time.monotonic() + KILL_S
        while not self._alone():  # again and again: a process may fork between the look and the kill
            if time.monotonic() > until:
                raise Failure("processes of the rollout could not be killed")
            signal_all(signal.SIGSTOP, set())  # a stopped one does not fork
            signal_all(signal.SIGKILL, set())
            self._run_until(self._alone, time.monotonic() + LOOK_S)

    def _alone(self) -> bool:
        return self._childless and not others()

    def _drain(self, output: Output) -> None:
        output.drain()
        if not output.open:
            self._loop.watch(output.fd, 0, lambda _: None)

    def _on_signal(self, _: int) -> None:
        for number, sender in read_signals(self._signals):
            if number == signal.SIGTERM and not (os.getpid() == 1 and sender):  # a container's own processes may not end it
                self._cancelled = True
        self._reap()

    def _reap(self) -> None:
        try:
            while (reaped := os.wait4(-1, os.WNOHANG))[0]:
                pid, status, usage = reaped
                self._rusage["cpu_s"] = round(self._rusage["cpu_s"] + usage.ru_utime + usage.ru_stime, 3)
                self._rusage["memory_mb"] = round(max(self._rusage["memory_mb"], usage.ru_maxrss / 1024), 1)
                if pid == self._child:
                    self._exit_code = os.waitstatus_to_exitcode(status)
        except ChildProcessError:
            self._childless = True
