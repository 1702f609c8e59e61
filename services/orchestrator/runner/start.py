"""Starts the program of a phase: what its process does with itself before it becomes the program."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket

from services.orchestrator.runner.beside import begin
from services.orchestrator.runner.cgroups import join
from services.orchestrator.runner.files import user_ids
from services.orchestrator.runner.relay import listen
from services.orchestrator.runner.system import PR_SET_DUMPABLE, PR_SET_PDEATHSIG, own_network, prctl

TYPE_CHECKING = False  # importing typing would double the time of a start
if TYPE_CHECKING:
    from typing import Any

    from services.orchestrator.spec import Phase, Spec

MARK_FD = 3
"""A socket with one byte to take once the sandbox stands: by bubblewrap, else here."""
SET_UP_FAILED, SERVICE_FAILED = 127, 126
"""Exit codes of a program that never began: of itself, or because what was to serve it does not."""
_ORDER_FD = 3  # before it is the mark's
_FILES = 1024
"""Below it lie the files of the runner, and whatever the orchestrator was itself started with: no agent gets those."""
_ORDER = ("user", "drops", "argv", "env", "cwd", "monitored", "service")
_PIECE = 65536


class Starter:
    """A child that will be a program. It is in a session of its own, and its network is made; then it waits to be told which
    program. It dies with this process, and when it is let go of before it was told.

    Args:
        own_network: it gets a network of its own, in which it listens where sandboxes expect the proxy.

    Attributes:
        pid: its number.
        network: it has one of its own.
        handover: gives that listening socket, once; it just ends where none could be had.
    """

    def __init__(self, own_network: bool) -> None:
        self.network = own_network
        self.handover, theirs = socket.socketpair()
        runner = os.getpid()
        self.pid = os.fork()
        if not self.pid:
            _wait_and_become(theirs.fileno(), own_network, runner)
        theirs.close()

    def go(self, phase: Phase, spec: Spec, output: int, mark: int) -> None:
        """Tells it what to become.

        Args:
            phase: whose program.
            spec: to which it belongs.
            output: file for what it prints.
            mark: socket with a byte to take once its sandbox stands.

        Raises:
            OSError: it is dead.
        """
        order = [{name: phase[name] for name in _ORDER if name in phase}, spec["cgroups"], spec["rlimits"]]  # type: ignore[literal-required]
        socket.send_fds(self.handover, [b"\n"], [output, mark])
        self.handover.sendall(json.dumps(order).encode())
        self.handover.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Lets go of it."""
        self.handover.close()


def rehearse() -> None:
    """Reads an order for nothing: see `server.rehearse`."""
    json.loads('[{"env": {"A": "b"}, "argv": ["c"], "monitored": true}, [], {"CORE": 0}]')
    join([])


def _wait_and_become(order_fd: int, network: bool, runner: int) -> None:
    """Never returns."""
    try:
        os.setsid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.dup2(order_fd, _ORDER_FD, inheritable=False)
        os.closerange(_ORDER_FD + 1, _FILES)
        with socket.socket(fileno=_ORDER_FD) as orders:
            problem = _make_network(orders) if network else None
            rehearse()
            (phase, groups, rlimits), output, mark = _receive(orders)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        if problem:
            raise problem
        _become(phase, groups, rlimits, mark, runner)
    except (OSError, ValueError) as e:
        os.write(1, str(e).encode())
    finally:
        os._exit(SET_UP_FAILED)


def _make_network(orders: socket.socket) -> OSError | None:
    """Why it could not be made, if it could not: there is nobody yet to be told."""
    try:
        own_network()
        prctl(PR_SET_DUMPABLE, 0)  # as it was before
        with listen() as listener:
            socket.send_fds(orders, [b"listening"], [listener.fileno()])
    except OSError as e:
        return e
    return None


def _receive(orders: socket.socket) -> tuple[list[Any], int, int]:
    """What to become, and two files."""
    try:
        said, fds, _, _ = socket.recv_fds(orders, 1, 2)
    except ConnectionResetError:
        said = b""
    if not said:  # there is nothing to become
        os._exit(0)
    for fd in fds:
        os.set_inheritable(fd, False)
    pieces = []
    while piece := orders.recv(_PIECE):
        pieces.append(piece)
    return json.loads(b"".join(pieces)), fds[0], fds[1]


def _become(phase: Phase, groups: list[Any], rlimits: dict[str, int], mark: int, runner: int) -> None:
    join(groups)
    for name, value in rlimits.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))
    if phase["drops"] and phase["user"]:
        _change_user(phase["user"])
    os.dup2(mark, MARK_FD, inheritable=phase["monitored"])
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # again after the last change of user, which would undo it
    if os.getppid() != runner:
        return
    os.chdir(phase["cwd"])
    for number in (signal.SIGPIPE, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    if "service" in phase and (why := begin(phase["service"], phase["env"], runner)):
        os.write(1, why.encode())
        os._exit(SERVICE_FAILED)
    if phase["monitored"] or os.read(MARK_FD, 1):
        os.execvpe(phase["argv"][0], phase["argv"], phase["env"])


def _change_user(user: str) -> None:
    uid, gid = user_ids(user)
    if uid != os.geteuid():
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
