"""Whether anybody still waits for a sandbox: its proxy is looked for now and then, and is away for too long or is not."""

from __future__ import annotations

import time

from services.orchestrator.runner.relay import address_of, dial

TYPE_CHECKING = False  # importing typing would double the time of a start
if TYPE_CHECKING:
    import socket

_LOOKS = 10  # within the time that the proxy may be away
_ANSWER_S = 1.0


class Lease:
    """One phase's. Nothing blocks: whether a connection could be made is seen a moment later, and it is closed then.

    Args:
        target: the proxy, as `address_of` takes it.
        lease_s: how long it may be away; 0: for ever.

    Attributes:
        look_at: when to look next, by the monotonic clock.
    """

    def __init__(self, target: str, lease_s: float) -> None:
        self._target, self._lease_s, self._every_s = target, lease_s, lease_s / _LOOKS
        self._sock: socket.socket | None = None
        self._reached = time.monotonic()
        self.look_at = self._reached + self._every_s if lease_s and target else float("inf")

    def over(self, now: float) -> bool:
        """Looks, if it is time to; whether the proxy has been away for too long."""
        if now < self.look_at:
            return False
        if self._sock is None:
            self._dial()
            self.look_at = now + min(_ANSWER_S, self._every_s)
            return now - self._reached > self._lease_s
        self._reached = now if self._connected() else self._reached
        self.close()
        self.look_at = now + self._every_s
        return now - self._reached > self._lease_s

    def close(self) -> None:
        """Breaks off what is being tried."""
        if self._sock:
            self._sock.close()
        self._sock = None

    def _dial(self) -> None:
        try:
            self._sock = dial(*address_of(self._target))
        except OSError:  # it is away, or has no name any more
            return

    def _connected(self) -> bool:
        if self._sock is None:
            return False
        try:
            self._sock.getpeername()
        except OSError:
            return False
        return True
