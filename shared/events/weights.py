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
    """The engine serves a version; a probe of its log-probs agreed with the trainer's (`probe_gap`, nats)."""

    version: Size
    engine: str = ""
    push_s: Duration = 0.0
    probe_gap: Annotated[float, Meta(ge=0)] = 0.0

    @property
    def key(self) -> str:
        return f"v{self.version}"

    @property
    def event_id(self) -> str:
        return f"weights-loaded-{self.run_id}-{self.version}"
