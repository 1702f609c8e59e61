"""Starts what serves a program, in the program's process before it becomes that. Few imports, as in `phases.py`."""

from __future__ import annotations

import os
import signal
import socket
import time

from services.orchestrator.runner.system import PR_SET_PDEATHSIG, prctl

TYPE_CHECKING = False  # importing typing would double the time of a start
if TYPE_CHECKING:
    from services.orchestrator.spec import Service

HOST = "127.0.0.1"
_FILES = 1024
_PAUSE_S, _ADOPTED_S = 0.02, 0.001
_TRIES = 3  # somebody else may take a free port first, where sandboxes share a network


def begin(service: Service, env: dict[str, str], runner: int) -> str:
    """Starts a service, waits until its port answers, and adds its address to an environment; gives why it does not serve,
    empty if it does.

    Args:
        service: to be started.
        env: of the program that it serves.
        runner: pid of the process that adopts it.
    """
    until = time.monotonic() + service["wait_s"]
    for _ in range(_TRIES):
        port = _free_port(service["port"])
        pid = _start(service, port, runner)
        if _answers(pid, port, until):
            env["SERVICE_URL"] = f"http://{HOST}:{port}"
            return ""
        if _lives(pid):
            return f"\nmetadata.serve: nothing answered on {HOST}:$PORT within {service['wait_s']:g} s"
        if service["port"]:  # it had the port for itself, and would end again
            break
    return f"\nmetadata.serve: the service ended before it answered on {HOST}:$PORT"


def _free_port(wanted: int) -> int:
    """The one that is wanted if nobody listens there, else any."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise OSError("there is no free port")


def _start(service: Service, port: int, runner: int) -> int:
    """Starts it as a child of the runner: the program must not find a child that it does not know."""
    told, tell = os.pipe()
    between = os.fork()
    if not between:
        pid = os.fork()
        if not pid:
            _become(service, port, runner)
        os.write(tell, b"%d" % pid)
        os._exit(0)
    os.waitpid(between, 0)
    os.close(tell)
    pid = int(os.read(told, 16) or b"0")
    os.close(told)
    return pid


def _become(service: Service, port: int, runner: int) -> None:
    """Never returns."""
    try:
        os.setsid()
        os.closerange(3, _FILES)
        while os.getppid() != runner:  # until then the signal would come of the wrong death
            time.sleep(_ADOPTED_S)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == runner:
            os.execve(service["argv"][0], service["argv"], service["env"] | {"PORT": str(port)})
    except OSError as e:
        os.write(1, str(e).encode())
    finally:
        os._exit(127)


def _answers(pid: int, port: int, until: float) -> bool:
    """Whether something listens there before the time is over, and the service lives."""
    while time.monotonic() < until and _lives(pid):
        with socket.socket() as probe:
            probe.settimeout(1.0)
            if not probe.connect_ex((HOST, port)):
                return _lives(pid)
        time.sleep(_PAUSE_S)
    return False


def _lives(pid: int) -> bool:
    """Whether it is there; whoever ended is reaped by the runner at once."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it is somebody else's by now
        return True
    return True
