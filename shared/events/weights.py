"""Weight versions."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from shared.events.base import Duration, Message, Size


class WeightsPublished(Message, frozen=True, kw_only=True, tag="weights.published"):
    """The trainer wrote a new version and begins to load it into the engine."""

    version: Size
    path: str = ""

    @property
    def key(self) -> str:
        return f"v{self.version}"

    @property
    def event_id(self) -> str:
        return f"weights-published-{self.run_id}-{self.version}"


class WeightsLoaded(Message, frozen=True, kw_only=True, tag="weights.loaded"):
    """An engine serves a version; a probe of its log-probs agreed with the trainer's (`probe_gap`, nats)."""

    version: Size
    engine: str = ""
    replica: Size = 0
    push_s: Duration = 0.0
    probe_gap: Annotated[float, Meta(ge=0)] = 0.0

    @property
    def key(self) -> str:
        return replica_key(self.version, self.replica)

    @property
    def event_id(self) -> str:
        return f"weights-loaded-{self.run_id}-{self.version}" + (f"-r{self.replica}" if self.replica else "")


class WeightsFailed(Message, frozen=True, kw_only=True, tag="weights.failed"):
    """An engine takes no calls: a version could not be loaded into it, or it does not answer. It is tried again."""

    version: Size
    engine: str = ""
    replica: Size = 0
    error: str = ""

    @property
    def key(self) -> str:
        return replica_key(self.version, self.replica)

    @property
    def event_id(self) -> str:
        return f"weights-failed-{self.run_id}-{self.key}-{int(self.at * 1000)}"


def replica_key(version: int, replica: int) -> str:
    """Key of what happened to a version at a replica (its number among the run's engines): `v3`, at others `v3-r1`."""
    return f"v{version}-r{replica}" if replica else f"v{version}"
