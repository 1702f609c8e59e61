"""What one process tells as traces."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import Protocol

from shared.config import TracesConfig
from shared.events import GroupMessage, Message, RolloutScheduled, RolloutStart, TrajectoryAssembled, TrajectoryDiscarded
from shared.trace.context import Place, attempt_place, is_sampled, parse, place_of, rollout_place, traceparent
from shared.trace.spans import Past, Span, spans_of

log = logging.getLogger(__name__)

_REMEMBERED = 20_000
"""Rollouts and groups of which something is known; of the oldest it is forgotten, which costs their spans their start."""


class Sink(Protocol):
    """Takes spans, and never waits."""

    def take(self, spans: Sequence[Span]) -> None:
        """Has spans exported some time soon."""
        ...


class Nowhere:
    """Of whoever publishes nothing that spans are made of."""

    def take(self, spans: Sequence[Span]) -> None:
        """Forgets them."""


class Tracer:
    """Gives published messages their trace context, and makes spans of them.

    Args:
        config: how many rollouts are traced, and with what.
        sink: takes the spans.
    """

    def __init__(self, config: TracesConfig, sink: Sink) -> None:
        self._config, self._sink = config, sink
        self._pasts: OrderedDict[str, Past] = OrderedDict()

    def header(self, message: Message) -> str:
        """The trace context that a message travels with; empty for none."""
        place = place_of(message)
        return traceparent(place, self._keeps(message, place)) if place else ""

    def published(self, message: Message) -> None:
        """Tells of a message of this service."""
        place = place_of(message)
        if place is None or not self._keeps(message, place):
            return
        self._note(message)
        past = self._pasts.pop(message.key, None) if isinstance(message, GroupMessage) else self._pasts.get(message.key)
        try:
            self._sink.take(spans_of(message, past, content=self._config.content))
        except Exception:  # the message is on the bus: whatever its spans suffer must not look like its own failure
            log.exception("no spans are made of %s", message.event_id)

    def delivered(self, message: Message, header: str) -> None:
        """Notes when a rollout was asked for, and by whose trace if by another one than its own. `header` is anybody's."""
        if not isinstance(message, RolloutStart):
            return
        asker, own = parse(header), rollout_place(message.run_id, message.rollout_id)
        links = (asker,) if asker and asker.trace != own.trace else ()
        self._remember(message.rollout_id, message.at, links)

    def _keeps(self, message: Message, place: Place) -> bool:
        """A share of the rollouts, but of groups and steps, which are few, all."""
        return not hasattr(message, "rollout_id") or is_sampled(place, self._config.sample)

    def _note(self, message: Message) -> None:
        match message:
            case RolloutScheduled():
                self._remember(message.rollout_id, message.at)
            case TrajectoryAssembled() | TrajectoryDiscarded():
                self._remember(message.group_id, message.at, (attempt_place(message),))

    def _remember(self, key: str, at: float, links: tuple[Place, ...] = ()) -> None:
        past = self._pasts.get(key)
        if past is not None:
            at, links = past.since, (*past.links, *(link for link in links if link not in past.links))
        self._pasts[key] = Past(at, links)
        while len(self._pasts) > _REMEMBERED:
            self._pasts.popitem(last=False)
