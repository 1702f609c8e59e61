"""Starts runners by forking: ``python -I -S -c RUN ROOT NETWORK``, with a socket as file 3, standard library only.

A runner costs what its imports cost, about 45 ms of a slow core; a fork of a process that has made them costs 3, which nobody
has to wait for: one runner is always forked ahead, and has forked what will be its first program; where NETWORK is `own`, that
has a network of its own already. The runner takes the next request (a spec's path, and the open log file), answers
with its pid, and has its successor forked. The server ends when the orchestrator closes the socket, by dying if need be; its
runners go on.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys

from services.orchestrator.runner.files import copy_tree, user_ids
from services.orchestrator.runner.phases import Ahead, Runner
from services.orchestrator.runner.report import encode, replace_status

TYPE_CHECKING = False  # importing typing would double the time of a start
if TYPE_CHECKING:
    from services.orchestrator.spec import Status

REQUEST_BYTES = 8192


def main() -> None:
    """Serves requests until the other side is gone."""
    server, own_network = socket.socket(fileno=3), sys.argv[2] == "own"
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended runners need no reaping
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # for the runners, until they can handle it
    gc.freeze()
    while fork_ahead(server, own_network):
        pass


def fork_ahead(server: socket.socket, own_network: bool) -> bool:
    """Forks a runner, and waits until it was asked for; False if it ended unasked."""
    taken, tell = os.pipe()
    if not os.fork():
        os.close(taken)
        become_runner(server, tell, own_network)
    os.close(tell)
    asked = bool(os.read(taken, 1))
    os.close(taken)
    return asked


def become_runner(server: socket.socket, tell: int, own_network: bool) -> None:
    """Waits for a request, and carries it out. Never returns."""
    try:
        os.setsid()
        ahead = Ahead(own_network)
        rehearse()
        request, fds, _, _ = socket.recv_fds(server, REQUEST_BYTES, 1)
        if not request:
            os._exit(0)
        os.write(tell, b"\n")
        os.close(tell)
        server.sendall(b"%d\n" % os.getpid())
        server.close()
        log = fds[0]
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.set_inheritable(log, False)  # held open: it carries the lock that says that this runner lives
        run(request.decode(), ahead)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    os._exit(0)


def rehearse() -> None:
    """Does without effect what a runner does first: after a fork the first change of a page costs a copy of it. A third of the
    time until bubblewrap started was that."""
    status: Status = {"pid": os.getpid(), "phase": "prepare", "error": None, "phases": {}}
    with open(os.devnull, encoding="utf-8") as nothing:
        json.loads(nothing.read() or encode(status))
    copy_tree("", "", [])
    user_ids("0")


def run(path: str, ahead: Ahead) -> None:
    """Carries out the spec in a file."""
    with open(path, encoding="utf-8") as file:
        spec = json.load(file)
    Runner(spec, lambda status: replace_status(spec["status"], status), ahead=ahead).run()
