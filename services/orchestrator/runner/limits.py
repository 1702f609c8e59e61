"""The limits of a program while it runs."""

from __future__ import annotations

from services.orchestrator.runner.files import size_of
from services.orchestrator.runner.lease import Lease
from services.orchestrator.runner.processes import Failure

TYPE_CHECKING = False  # importing typing would double the time of a start
if TYPE_CHECKING:
    from services.orchestrator.runner.relay import Relay
    from services.orchestrator.spec import Limit, Phase

STORAGE_S = 2.0  # between two looks at what is on the disk


class Limits:
    """Those of one phase. Times are of the monotonic clock.

    Args:
        phase: that they are of.
        lease_s: how long the proxy may be away; 0 for ever.
        began: when its program began to run.
    """

    def __init__(self, phase: Phase, lease_s: float, began: float) -> None:
        self._phase, self._lease_s = phase, lease_s
        self._wall = began + phase["timeout_s"]
        self._look = began + STORAGE_S if phase["storage_mb"] else float("inf")
        self._lease = Lease(phase["relay"], lease_s)

    def passed(self, now: float, relay: Relay | None) -> Limit | None:
        """The limit that has been reached, if one has.

        Raises:
            Failure: the proxy was away for so long that nobody waits for this any more.
        """
        if now >= self._wall:
            return "wall"
        if now >= self._idle(now, relay):
            return "idle"
        if now >= self._look:
            if size_of(self._phase["fresh"] + self._phase["own"]) > self._phase["storage_mb"] << 20:
                return "storage"
            self._look = now + STORAGE_S
        if self._lease.over(now):
            raise Failure(f"the proxy was away for {self._lease_s:g} s, so nobody waits for this sandbox any more")
        return None

    def next_look(self, now: float, relay: Relay | None) -> float:
        """When to ask again."""
        return min(self._wall, self._idle(now, relay), self._look, self._lease.look_at)

    def close(self) -> None:
        """Breaks off a look at the proxy."""
        self._lease.close()

    def _idle(self, now: float, relay: Relay | None) -> float:
        """When the program will have been idle for too long: no call is waited for, and none came."""
        if not self._phase["idle_s"] or not relay:
            return float("inf")
        return self._phase["idle_s"] + (now if relay.asked else relay.moved)
