"""Which trace and span a message belongs to. Pure.

Both are made from the ids that the message has anyway. So every service finds the trace of a rollout without having been told
of it: after a kill -9, for a message that comes late, and in a queue of thousands; and a span that is told twice is one span.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from shared.events import (
    CallRecorded,
    GroupCompleted,
    GroupDiscarded,
    Message,
    RolloutCancel,
    RolloutFailed,
    RolloutFinished,
    RolloutMessage,
    RolloutScheduled,
    RolloutStart,
    RolloutStarted,
    RolloutTimedOut,
    RunStepped,
    SessionSealed,
    TrajectoryAssembled,
    TrajectoryDiscarded,
    WeightsFailed,
    WeightsLoaded,
    WeightsPublished,
)

HEADER = "traceparent"
"""Of a message on the bus: W3C trace context, level 1."""

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_FORBIDDEN_VERSION = "ff"


class Place(NamedTuple):
    """A span: the trace that it is in, and its id there; never 0."""

    trace: int
    span: int


def rollout_place(run: str, rollout: str) -> Place:
    """The root of a rollout's trace."""
    return Place(_trace(run, "rollout", rollout), _span(run, "rollout", rollout))


def attempt_place(message: RolloutMessage) -> Place:
    """One attempt of a rollout."""
    return _within(message, f"a{message.attempt}")


def stage_place(message: RolloutMessage, stage: str) -> Place:
    """A stage of an attempt."""
    return _within(message, f"a{message.attempt}/{stage}")


def group_place(run: str, group: str) -> Place:
    """A group; it has a trace of its own."""
    return Place(_trace(run, "group", group), _span(run, "group", group))


def version_place(run: str, version: int) -> Place:
    """The step that made a weight version; its pushes are in the same trace."""
    return Place(_trace(run, "version", str(version)), _span(run, "version", str(version)))


def step_place(message: RunStepped) -> Place:
    """A step; one that changed no weights shares a trace with no push."""
    if message.metrics.get("training/skipped"):
        return Place(_trace(message.run_id, "step", str(message.step)), _span(message.run_id, "step", str(message.step)))
    return version_place(message.run_id, message.version)


def phase_place(message: RunStepped, phase: str) -> Place:
    """A part of a step."""
    return Place(step_place(message).trace, _span(message.run_id, "step", f"{message.step}/{phase}"))


def place_of(message: Message) -> Place | None:
    """The span that a message tells of; None if it is no part of a trace."""
    find = _PLACES.get(type(message))
    return find(message) if find else None


def traceparent(place: Place, sampled: bool) -> str:
    """As a header has it.

    >>> traceparent(Place(1, 2), True)
    '00-00000000000000000000000000000001-0000000000000002-01'
    """
    return f"00-{place.trace:032x}-{place.span:016x}-{sampled:02x}"


def parse(text: str) -> Place | None:
    """The span that a header of anybody names; None if it is none by the letter of W3C trace context.

    >>> parse("00-00000000000000000000000000000001-0000000000000002-01")
    Place(trace=1, span=2)
    """
    found = _TRACEPARENT.fullmatch(text)
    if not found or found[1] == _FORBIDDEN_VERSION or (found[1] == "00" and found[5]):
        return None
    place = Place(int(found[2], 16), int(found[3], 16))
    return place if all(place) else None


def is_sampled(place: Place, share: float) -> bool:
    """Whether the trace is among the share of all that are kept: the same answer for each of its spans, in every service."""
    return (place.trace & _HALF) < share * (_HALF + 1)


_HALF = 2**64 - 1


def _within(message: RolloutMessage, name: str) -> Place:
    run, rollout = message.run_id, message.rollout_id
    return Place(_trace(run, "rollout", rollout), _span(run, "rollout", f"{rollout}/{name}"))


def _own(message: RolloutMessage) -> Place:
    return _within(message, message.event_id)


def _pushed(message: WeightsPublished | WeightsLoaded | WeightsFailed) -> Place:
    trace = version_place(message.run_id, message.version).trace
    return Place(trace, _span(message.run_id, "version", message.event_id))


@lru_cache(4096)  # a rollout has many messages
def _trace(run: str, kind: str, name: str) -> int:
    return _number(f"{run}/{kind}/{name}", 16)


def _span(run: str, kind: str, name: str) -> int:
    return _number(f"{run}/{kind}/{name}", 8)


def _number(text: str, size: int) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=size, person=b"trace").digest(), "big") or 1


def _rollout(message: RolloutMessage) -> Place:
    return rollout_place(message.run_id, message.rollout_id)


def _group(message: GroupCompleted | GroupDiscarded) -> Place:
    return group_place(message.run_id, message.group_id)


_PLACES: dict[type[Message], Callable[[Any], Place]] = {
    RolloutStart: _rollout, RolloutCancel: _rollout,
    RolloutScheduled: attempt_place, RolloutStarted: attempt_place,
    RolloutFinished: attempt_place, RolloutTimedOut: attempt_place, RolloutFailed: attempt_place,
    CallRecorded: _own, SessionSealed: _own, TrajectoryAssembled: _own, TrajectoryDiscarded: _own,
    GroupCompleted: _group, GroupDiscarded: _group,
    RunStepped: step_place,
    WeightsPublished: _pushed, WeightsLoaded: _pushed, WeightsFailed: _pushed,
}  # fmt: skip
