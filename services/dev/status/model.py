"""What there is to know of a deployment, and what of it is broken. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from shared.watch.word import Failure, Word

EXPECTED = ("proxy", "orchestrator", "collector", "trainer")
SILENT_S = 20.0
"""A service that was not heard of for so long is gone, or hangs."""
FORGOTTEN_S = 900.0
_GRADED = ("finished", "timed_out")
_SHARED = {"groups_open": "groups open", "outbox": "groups not yet told", "groups_awaited": "groups awaited"}
"""Of which all processes of a service say the same."""


class Engine(msgspec.Struct, frozen=True):
    """An engine: `wrong`, why it does not answer; whether calls may begin at it, and under which weights (-1: not known)."""

    address: str
    wrong: str = ""
    open: bool = False
    version: int = -1
    calls: int = 0


class Service(msgspec.Struct, frozen=True):
    """A process of a service, with its last word; `wrong`: why it does not do its work, empty if it does."""

    word: Word
    wrong: str = ""

    @property
    def name(self) -> str:
        """Which, for a person."""
        return self.word.service


class Lagging(msgspec.Struct, frozen=True):
    """Messages that a consumer has not acknowledged."""

    consumer: str
    stream: str
    messages: int


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """A deployment.

    Attributes:
        run_id: its run.
        at: unix time.
        bus, store: why it does not answer; empty if it does.
        services: all processes that are known.
        engines: those that the configuration names.
        lags: of the run's consumers.
        streams: messages and bytes of each, of all runs.
        queues: what waits and runs: `rollouts waiting`, `rollouts running`, `groups open`, ...
        failing: attempts that failed, by the class of the error.
        failures: the last of them.
        problems: what is broken; the deployment is well if empty.
    """

    run_id: str
    at: float
    bus: str = ""
    store: str = ""
    services: list[Service] = []
    engines: list[Engine] = []
    lags: list[Lagging] = []
    streams: dict[str, tuple[int, int]] = {}
    queues: dict[str, int] = {}
    failing: dict[str, int] = {}
    failures: list[Failure] = []
    problems: list[str] = []


def judged(word: Word, now: float) -> Service:
    """A process by its last word."""
    age_s = now - word.at
    if age_s > SILENT_S:
        return Service(word, f"not heard of for {age_s:.0f} s")
    return Service(word, "; ".join(f"{name}: {why}" for name, why in word.missing.items()))


def present(words: Iterable[Word], now: float) -> list[Service]:
    """The processes that there are by their words. One that is silent is not there any more if another of its service began
    on its machine since, or if it was a quarter of an hour ago."""
    services = [judged(word, now) for word in words if now - word.at < FORGOTTEN_S]
    alive = [s.word for s in services if now - s.word.at <= SILENT_S]

    def replaced(old: Word) -> bool:
        return any((old.service, old.host) == (w.service, w.host) and w.began > old.at for w in alive)

    return sorted((s for s in services if not replaced(s.word)), key=lambda s: (s.name, s.word.began))


def with_problems(status: Status, expected: Sequence[str]) -> Status:
    """The same, with what is broken."""
    wrong = [f"{name}: {why}" for name, why in (("bus", status.bus), ("store", status.store)) if why]
    wrong += [f"engine {e.address}: {e.wrong}" for e in status.engines if e.wrong]
    there = {s.name for s in status.services}
    wrong += [f"{name}: no such service is known" for name in expected if name not in there]
    wrong += [f"{s.name}: {s.wrong}" for s in status.services if s.wrong]
    return msgspec.structs.replace(status, problems=wrong)


def queues_of(services: Iterable[Service]) -> dict[str, int]:
    """What waits and runs, as the services say."""
    words, queues = [s.word for s in services], Counter[str]()
    for word in words:
        for state, n in word.values("rollouts").items():
            queues[f"rollouts {state}"] += int(n)
        queues["calls open"] += int(sum(word.values("requests_open").values()))
    for name, shown in _SHARED.items():
        queues[shown] = int(max((n for word in words for n in word.values(name).values()), default=0))
    return dict(queues)


def failing_of(services: Iterable[Service]) -> dict[str, int]:
    """Attempts that failed, by class, the most frequent first."""
    classes: Counter[str] = Counter()
    for service in services:
        for labels, n in service.word.values("rollouts_ended_total").items():
            if (outcome := labels.partition(",")[0]) not in _GRADED:
                classes[outcome] += int(n)
    return dict(classes.most_common())
