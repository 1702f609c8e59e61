"""Which of the rollouts that wait begins next. Pure: times are seconds of a clock that the caller reads.

Higher priorities come first, then what was asked for first. What would exceed its task's cap waits, and what comes after it
goes ahead. Every step costs about log(n).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from heapq import heappop, heappush


@dataclass(frozen=True, slots=True, order=True)
class Ticket:
    """A rollout that waits, or runs.

    Attributes:
        rank: the smaller comes first: its negated priority.
        number: in the order in which rollouts were asked for; one that tries again keeps its own.
        name: its rollout id.
        task: its task.
    """

    rank: int
    number: int
    name: str
    task: str = field(compare=False)


@dataclass(frozen=True, slots=True)
class Caps:
    """How many may run at once: of all, and of one task (0 for no limit)."""

    all: int
    task: int = 0


class Bucket:
    """Lets `rate` things happen in a second, and as many at once after a quiet second (at least one); 0 for no limit."""

    def __init__(self, rate: float) -> None:
        self._rate, self._size = rate, max(rate, 1.0)
        self._left, self._at = self._size, 0.0

    def take(self, now: float) -> float:
        """Takes one and returns 0, or returns the seconds after which there will be one."""
        if not self._rate:
            return 0.0
        self._left = min(self._size, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left >= 1 - 1e-9:
            self._left -= 1
            return 0.0
        return (1 - self._left) / self._rate


class Queue:
    """Rollouts that wait, and the count of those that run."""

    def __init__(self, caps: Caps) -> None:
        self._caps = caps
        self._waiting: dict[str, Ticket] = {}
        self._running: dict[str, Ticket] = {}
        self._of_task: Counter[str] = Counter()
        self._room: int | None = None
        self._ready: list[Ticket] = []
        self._held: defaultdict[str, list[Ticket]] = defaultdict(list)  # their task's cap is reached

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """How many run."""
        return len(self._running)

    @property
    def want(self) -> int:
        """How many would run if there were room for all that the caps allow, with those that do."""
        waiting, cap = len(self._waiting), self._caps.task
        if cap:
            of_task = Counter(ticket.task for ticket in self._waiting.values())
            waiting = sum(min(n, max(0, cap - self._of_task[task])) for task, n in of_task.items())
        return min(self._caps.all, len(self._running) + waiting)

    def limit(self, room: int) -> None:
        """From now on no rollout begins while so many run, and one that ends takes its place along."""
        self._room = room

    def add(self, ticket: Ticket) -> None:
        """Lets a rollout wait; one that waits already stays where it is."""
        if ticket.name not in self._waiting:
            self._waiting[ticket.name] = ticket
            heappush(self._ready, ticket)

    def drop(self, name: str) -> bool:
        """Lets a rollout wait no longer; False if it did not."""
        ticket = self._waiting.pop(name, None)  # its place in a heap is passed over
        if ticket:
            self._unhold(ticket)  # it may have been the one that was let go for a free place
        return ticket is not None

    def occupy(self, ticket: Ticket) -> None:
        """A rollout runs, whatever the caps say: an earlier orchestrator began it."""
        self._waiting.pop(ticket.name, None)
        self._running[ticket.name] = ticket
        self._of_task[ticket.task] += 1

    def release(self, name: str) -> None:
        """A rollout does not run any more."""
        ticket = self._running.pop(name, None)
        if ticket is None:
            return
        if self._room is not None:
            self._room -= 1
        self._of_task[ticket.task] -= 1
        if not self._of_task[ticket.task]:
            del self._of_task[ticket.task]
        self._unhold(ticket)

    def next(self) -> Ticket | None:
        """The rollout that begins now, and counts as running from here on; None if none may."""
        if len(self._running) >= (self._caps.all if self._room is None else min(self._caps.all, self._room)):
            return None
        while self._ready:
            first = heappop(self._ready)
            if self._may_begin(first):
                self.occupy(first)
                return first
            if self._waits(first):
                heappush(self._held[first.task], first)
        return None

    def _unhold(self, gone: Ticket) -> None:
        """Lets one go ahead that the cap of that ticket's task held back."""
        held = self._held.get(gone.task)
        while held:
            if self._waits(first := heappop(held)):
                heappush(self._ready, first)
                break
        if not held:
            self._held.pop(gone.task, None)

    def _may_begin(self, ticket: Ticket) -> bool:
        cap = self._caps.task
        return self._waits(ticket) and (not cap or self._of_task[ticket.task] < cap)

    def _waits(self, ticket: Ticket) -> bool:
        return self._waiting.get(ticket.name) is ticket
