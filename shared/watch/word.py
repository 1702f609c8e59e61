"""What a service says of itself, for a person who asks how a deployment does."""

from __future__ import annotations

import msgspec


class Failure(msgspec.Struct, frozen=True):
    """An attempt of a rollout that failed, `at` a unix time; `final`: no further one follows."""

    at: float
    rollout_id: str
    attempt: int
    reason: str
    stage: str
    detail: str
    final: bool


class Sample(msgspec.Struct, frozen=True, array_like=True):
    """A counter or gauge, by its name without the prefix, the values of its labels, and where it stands."""

    name: str
    labels: list[str]
    value: float


class Word(msgspec.Struct, frozen=True, kw_only=True):
    """One process.

    Attributes:
        service: which service.
        host, pid: where it runs.
        version: of OpenForgeRL.
        url: where it answers; empty for nowhere.
        began: unix time at which it started.
        at: unix time of these words.
        missing: what it depends on and cannot reach, with the reason; ready if empty.
        metrics: its counters and gauges.
        failures: its last ones.
    """

    service: str
    host: str = ""
    pid: int = 0
    version: str = ""
    url: str = ""
    began: float = 0.0
    at: float = 0.0
    missing: dict[str, str] = {}
    metrics: list[Sample] = []
    failures: list[Failure] = []

    @property
    def id(self) -> str:
        """Tells it from all others of the run."""
        return id_of(self.service, self.host, self.pid)

    def values(self, name: str) -> dict[str, float]:
        """A metric by its labels, with commas between."""
        return {",".join(s.labels): s.value for s in self.metrics if s.name == name}


def id_of(service: str, host: str, pid: int) -> str:
    """Names one process of a service."""
    return f"{service}@{host}:{pid}"
