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

from services.orchestrator.runner import cgroups
from services.orchestrator.runner.clock import Clock
from services.orchestrator.runner.files import TaskFault, collect, fill, hand_over, make_folders
from services.orchestrator.runner.limits import Limits
from services.orchestrator.runner.loop import READ, Loop
from services.orchestrator.runner.mark import Mark
from services.orchestrator.runner.output import Output
from services.orchestrator.runner.processes import Failure, Processes
from services.orchestrator.runner.relay import Relay, listen
from services.orchestrator.runner.rewards import reached
from services.orchestrator.runner.start import SERVICE_FAILED, Starter

TYPE_CHECKING = False  # importing typing would double the time of a start
if TYPE_CHECKING:
    from collections.abc import Callable

    from services.orchestrator.spec import Limit, Phase, PhaseStatus, Spec, Status, Unpack

SET_UP_S = 60.0  # how long a sandbox may take to stand; its program's time begins then
LAST_S = 60.0  # after the deadline, to end what still runs and to tell


class Ahead:
    """What a runner can have before it knows its spec.

    Args:
        own_network: its first program is expected to get a network of its own.
    """

    def __init__(self, own_network: bool) -> None:
        self.loop = Loop()
        self.processes = Processes(self.loop)
        self.starter = Starter(own_network)


class Runner:
    """The phases of one spec.

    Args:
        spec: what to do.
        tell: gets the status at every change.
        fetch: unpacks a package; not needed where the spec has none.
        leave: keeps a file or folder for the orchestrator; not needed where the spec names none.
        ahead: what was made beforehand.
    """

    def __init__(
        self,
        spec: Spec,
        tell: Callable[[Status], None],
        fetch: Callable[[Unpack], None] | None = None,
        leave: Callable[[str], None] | None = None,
        ahead: Ahead | None = None,
    ) -> None:
        self.spec = spec
        self.status: Status = {"pid": os.getpid(), "phase": "prepare", "error": None, "phases": {}}
        if "strategy" in spec:
            self.status["strategy"] = spec["strategy"]
        self._tell, self._fetch, self._leave = tell, fetch, leave
        self._late = False
        self._loop = ahead.loop if ahead else Loop()
        self._processes = ahead.processes if ahead else Processes(self._loop)
        self._starter = ahead and ahead.starter
        self._clock = Clock()
        self._relay: Relay | None = None
        self._handover: socket.socket | None = None

    def run(self) -> None:
        """All phases; the last status is final whatever happens."""
        signal.signal(signal.SIGALRM, self._out_of_time)
        try:
            signal.setitimer(signal.ITIMER_REAL, self.spec["deadline_s"], LAST_S)
            for phase in self.spec["phases"]:
                if self._processes.cancelled:
                    break
                self._carry_out(phase)
                if "at_least" in phase and not reached(self.status["phases"][phase["name"]]["collected"], phase["at_least"]):
                    break
            if not self._processes.cancelled:
                self._leave_all()
            self._report("cancelled" if self._processes.cancelled else "done")
        except (OSError, ValueError, Failure) as e:
            self.fail(f"{self.status['phase']}: {e}", of_task=isinstance(e, TaskFault))

    def _leave_all(self) -> None:
        for path in self.spec.get("leaves", ()):
            if self._leave is None:
                raise Failure(f"{path} cannot be left anywhere here")
            self._leave(path)

    def _out_of_time(self, *_: object) -> None:
        """Whatever the runner is at, be it a call that does not return; the second time without a word."""
        if self._late:
            os._exit(1)
        self._late = True
        raise Failure(f"the runner did not end within {self.spec['deadline_s']:g} s")

    def fail(self, why: str, *, of_task: bool) -> None:
        """Ends everything, and tells why the attempt failed, and if no other one could fare better."""
        try:
            self._processes.end(self.spec["grace_s"])
        except Failure as e:
            why += f"; {e}"
        cgroups.give_up(self.spec["cgroups"])
        self.status["error"] = why
        if of_task:
            self.status["of_task"] = True
        self._report("failed")

    def _report(self, phase: str) -> None:
        self.status["phase"] = phase
        self._tell(self.status)

    def _carry_out(self, phase: Phase) -> None:
        """One phase: its program, with its files, again if need be."""
        self.status["phase"] = phase["name"]
        make_folders(phase)
        if "clock" in phase and (why := self._clock.apply(phase["env"], **phase["clock"])):
            raise Failure(why)
        if "service" in phase:
            phase["service"]["env"] |= {name: phase["env"][name] for name in ("FAKETIME",) if name in phase["env"]}
        tries = max(1, phase["tries"])
        for number in range(tries):
            result = self._try(phase, first=not number)
            self.status["phases"][phase["name"]] = result
            if self._processes.cancelled or not phase["tries"] or result["exit_code"] == 0:
                return
            if number < tries - 1:
                self._processes.run_until(lambda: self._processes.cancelled, time.monotonic() + phase["interval_s"])
        raise Failure(f"not one of {tries} tries succeeded; the last one ended with {result['exit_code']}")

    def _try(self, phase: Phase, *, first: bool) -> PhaseStatus:
        """The program runs once, and everything that it started ends. While its sandbox is set up, the first try's files are
        laid out; before that if a service needs them."""
        cgroups.make(self.spec["cgroups"])
        output, mark = Output(phase["log"], phase["name"], self.spec["log_bytes"]), Mark(self._loop)
        self._loop.watch(output.fd, READ, lambda _: self._drain(output))
        started = time.monotonic()
        try:
            if first and "service" in phase:
                self._lay_out(phase)
            self._start(phase, output, mark)
            if first:
                self._report(phase["name"])
            if first and "service" not in phase:
                self._lay_out(phase)
            mark.give()
            limit = self._watch(phase, mark)
            ended = time.monotonic()
            self._processes.end(self.spec["grace_s"], spare_program=phase["monitored"])
        finally:
            if not mark.given:  # whoever waits for it would go on
                self._processes.end(0.0)
            self._close_relay()
            self._loop.watch(output.fd, 0, lambda _: None)
            output.close()
            mark.close()
        if not mark.taken and not self._processes.cancelled:
            if "service" in phase and self._processes.exit_code == SERVICE_FAILED:
                raise TaskFault(output.tail)
            raise Failure(f"the sandbox could not be set up: {output.tail or 'it said nothing'}")
        return self._result(phase, limit, ended - (mark.taken if 0 < mark.taken < ended else started))

    def _start(self, phase: Phase, output: Output, mark: Mark) -> None:
        starter, self._starter = self._starter, None
        own = phase["network"] == "own"
        if starter and starter.network != own:
            starter.close()
            starter = None
        starter = starter or Starter(own)
        self._processes.follow(starter.pid)
        starter.go(phase, self.spec, output.write_fd, mark.theirs.fileno())
        os.close(output.write_fd)
        if own:
            self._take_over_later(starter.handover, phase["relay"])
            return
        starter.close()
        if phase["relay"]:
            self._relay = Relay(self._loop, listen(), phase["relay"])

    def _lay_out(self, phase: Phase) -> None:
        fill(phase)
        for package in phase["packages"]:
            if self._fetch is None:
                raise Failure(f"the package {package['package']} cannot be had here")
            self._fetch(package)
        hand_over(phase)

    def _take_over_later(self, ours: socket.socket, target: str) -> None:
        self._handover = ours
        self._loop.watch(ours.fileno(), READ, lambda _: self._take_over(ours, target))

    def _take_over(self, ours: socket.socket, target: str) -> None:
        """The program's process has made its network, and hands over a socket that listens in there, or has failed."""
        received = socket.recv_fds(ours, 16, 1)[1]
        self._close_relay()
        for fd in received:
            listener = socket.socket(fileno=fd)
            if target:
                self._relay = Relay(self._loop, listener, target)
            else:
                listener.close()

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
            "exit_code": self._processes.exit_code, "timed_out": limit is not None, "limit": limit,
            "oom": cgroups.ran_out_of_memory(groups), "seconds": round(seconds, 4),
            "used": self._processes.used | cgroups.used(groups), "collected": collected, "too_large": too_large,
        }  # fmt: skip
        cgroups.remove(groups)
        return result

    def _watch(self, phase: Phase, mark: Mark) -> Limit | None:
        """Waits for the program's end; gives the limit that came first, if one did.

        Raises:
            Failure: the proxy was away for so long that nobody waits for this any more.
        """
        if not self._processes.run_until(lambda: self._ended() or mark.taken > 0, time.monotonic() + SET_UP_S):
            return "wall"
        limits = Limits(phase, self.spec["lease_s"], mark.taken)
        try:
            while not self._ended():
                now = time.monotonic()
                if limit := limits.passed(now, self._relay):
                    return limit
                self._loop.turn(limits.next_look(now, self._relay) - now)
        finally:
            limits.close()
        return None

    def _ended(self) -> bool:
        return self._processes.exit_code is not None or self._processes.cancelled

    def _drain(self, output: Output) -> None:
        output.drain()
        if not output.open:
            self._loop.watch(output.fd, 0, lambda _: None)
