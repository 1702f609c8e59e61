"""The orchestrator's side of the runner server."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from pathlib import Path

ROOT = str(Path(__file__).resolve().parents[3])
RUN = "import sys; sys.path.insert(0, sys.argv[1]); from services.orchestrator.runner.server import main; main()"
"""Not as a script, which Python would compile anew at every start."""
_ANSWER_S = 20.0
_SOCKET_FD = 3


class Spawner:
    """Has runners forked by a server of its own, which is started when first needed, and again when it died.

    Args:
        own_network: sandboxes will get networks of their own, as a rule: they are made ahead.
        python: that it runs in.
    """

    def __init__(self, own_network: bool = False, python: str = sys.executable) -> None:
        self._network = "own" if own_network else "shared"
        self._python = python
        self._socket: socket.socket | None = None
        self._pid = 0

    def spawn(self, spec: Path, log: int) -> int:
        """Starts a runner and returns its pid.

        Args:
            spec: of the attempt.
            log: open file for what the runner says; the runner holds it (and its lock) open for as long as it lives.

        Raises:
            OSError: it could not be started.
        """
        try:
            return self._ask(spec, log)
        except (BrokenPipeError, ConnectionError, EOFError):
            self.close()
            return self._ask(spec, log)

    def close(self) -> None:
        """Ends the server; runners go on."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._pid, 0)

    def _ask(self, spec: Path, log: int) -> int:
        if self._socket is None:
            self._socket = self._start()
        try:
            socket.send_fds(self._socket, [os.fsencode(spec)], [log])
            answer = self._socket.recv(64)
        except TimeoutError:  # its late answer must not be taken for that to the next request
            os.kill(self._pid, signal.SIGKILL)
            self.close()
            raise
        if not answer:
            raise EOFError
        return int(answer)

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(_ANSWER_S)
        with theirs:
            self._pid = os.posix_spawn(
                self._python,
                [self._python, "-I", "-S", "-c", RUN, ROOT, self._network],
                {},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, theirs.fileno(), _SOCKET_FD),
                ],
                setsid=True,
                setsigdef=[signal.SIGCHLD],
            )
        return ours
