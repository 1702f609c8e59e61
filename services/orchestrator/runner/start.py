"""Starts the program of a phase: what its process does with itself before it becomes the program."""

from __future__ import annotations

import os
import resource
import signal
import socket

from services.orchestrator.runner.cgroups import join
from services.orchestrator.runner.files import user_ids
from services.orchestrator.runner.relay import listen
from services.orchestrator.runner.system import PR_SET_PDEATHSIG, own_network, prctl

TYPE_CHECKING = False  # importing typing would double the time of a start
if TYPE_CHECKING:
    from services.orchestrator.spec import Phase, Spec

MARK_FD = 3
"""A socket with one byte in it, which is taken out once the sandbox stands: by bubblewrap, else here."""
SET_UP_FAILED = 127


def start(phase: Phase, spec: Spec, output: int, mark: int, handover: socket.socket | None) -> int:
    """Starts the phase's program in a session of its own, and gives its pid. It dies with the runner.

    Args:
        phase: whose program.
        spec: to which it belongs.
        output: file for what it prints.
        mark: socket with a byte to take once its sandbox stands. All that have it open close it then, or end.
        handover: gets the relay's listening socket of the network that is made for it.
    """
    runner = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        _confine(phase, spec, handover)
        os.dup2(mark, MARK_FD, inheritable=phase["monitored"])
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # after the last change of user, which would undo it
        if os.getppid() == runner:
            os.chdir(phase["cwd"])
            for number in (signal.SIGPIPE, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            if not phase["monitored"]:
                os.read(MARK_FD, 1)
            os.execvpe(phase["argv"][0], phase["argv"], phase["env"])
    except (OSError, ValueError) as e:
        os.write(1, str(e).encode())
    finally:
        os._exit(SET_UP_FAILED)


def _confine(phase: Phase, spec: Spec, handover: socket.socket | None) -> None:
    join(spec["cgroups"])
    if phase["network"] == "own":
        own_network()
        if handover:
            with listen() as listener:
                socket.send_fds(handover, [b"listening"], [listener.fileno()])
    for name, value in spec["rlimits"].items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))
    if phase["drops"] and phase["user"]:
        uid, gid = user_ids(phase["user"])
        if uid != os.geteuid():
            os.setgroups([])
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
