"""Waits for many files at once and calls whom it concerns."""

from __future__ import annotations

import select

TYPE_CHECKING = False  # importing typing would double the time of a start
if TYPE_CHECKING:
    from collections.abc import Callable

READ, WRITE = select.EPOLLIN, select.EPOLLOUT


class Loop:
    """Handlers by file, called with what the file is ready for."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._watched: dict[int, tuple[int, Callable[[int], None]]] = {}

    def watch(self, fd: int, events: int, handler: Callable[[int], None]) -> None:
        """Calls `handler` whenever the file is ready for one of `events`, or has failed. With no events it is let go of:
        the kernel would go on telling of a hang-up."""
        before = self._watched.get(fd, (0, handler))[0]
        if events and before != events:
            (self._epoll.modify if before else self._epoll.register)(fd, events)
        elif before and not events:
            self._epoll.unregister(fd)
        if events:
            self._watched[fd] = events, handler
        else:
            self._watched.pop(fd, None)

    def turn(self, within_s: float) -> None:
        """Waits until something is ready, or the time is over, and has it handled."""
        for fd, events in self._epoll.poll(max(0.0, within_s)):
            if fd in self._watched:  # an earlier handler may have let go of it
                self._watched[fd][1](events)
