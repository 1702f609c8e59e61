"""How a runner knows that a sandbox stands: a byte is taken, by bubblewrap once everything is mounted, else by the program's
process, just before it becomes the program. It waits for the byte, so that nothing runs before all its files are there."""

from __future__ import annotations

import socket
import time

from services.orchestrator.runner.loop import READ

TYPE_CHECKING = False  # importing typing would double the time of a start
if TYPE_CHECKING:
    from services.orchestrator.runner.loop import Loop


class Mark:
    """One sandbox's.

    Args:
        loop: tells of it.

    Attributes:
        theirs: the end to take the byte from. All that have it open close it then, or end.
        given: the byte was put there.
        taken: when it was taken, by the monotonic clock; 0 before, and if it never was.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._ours, self.theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._watched = self.given = False
        self.taken = 0.0

    def give(self) -> None:
        """Puts the byte there; lets the other end go."""
        self.theirs.close()
        self.given = True
        try:
            self._ours.send(b"\n")
        except BrokenPipeError:  # whoever was to take it has ended
            return
        self._watched = True
        self._loop.watch(self._ours.fileno(), READ, self._look)

    def close(self) -> None:
        """What has not happened by now is not waited for."""
        self.theirs.close()
        self._look(0)
        self._ours.close()

    def _look(self, _: int) -> None:
        """Taken if the connection has ended; else it is broken, once, because the byte still lay in it."""
        if not self._watched:
            return
        self._watched = False
        self._loop.watch(self._ours.fileno(), 0, self._look)
        try:
            self._ours.recv(1)
            self.taken = time.monotonic()
        except (BlockingIOError, ConnectionResetError):
            return
