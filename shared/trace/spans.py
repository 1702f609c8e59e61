"""The spans that a published message tells of. Pure.

A service says on the bus all that matters, with the seconds that it took, so that spans are made here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from shared.events import (
    CallRecorded,
    GroupCompleted,
    GroupDiscarded,
    GroupMessage,
    Message,
    OutcomeMessage,
    RolloutCancel,
    RolloutFailed,
    RolloutFinished,
    RolloutMessage,
    RolloutTimedOut,
    RunStepped,
    SessionSealed,
    TrajectoryAssembled,
    TrajectoryDiscarded,
    WeightsFailed,
    WeightsLoaded,
    WeightsPublished,
    tag_of,
)
from shared.trace import genai
from shared.trace.context import (
    Place,
    attempt_place,
    group_place,
    phase_place,
    place_of,
    rollout_place,
    stage_place,
    version_place,
)
from shared.trace.genai import Attribute

STAGES = ("queue", "schedule", "pull", "boot", "agent", "verify")
PHASES = ("gen", "update", "push")
"""Of a step, one after the other, as its metrics name them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One span.

    Attributes:
        name: for a person.
        place: its trace and id.
        parent: the span of the same trace that it is part of; None for a root.
        start, end: unix times in seconds.
        attributes: what is known of it.
        links: spans of other traces that it follows from.
        error: why it failed; empty if it did not.
        client: it is a request to somebody else.
    """

    name: str
    place: Place
    parent: Place | None
    start: float
    end: float
    attributes: dict[str, Attribute] = field(default_factory=dict)
    links: tuple[Place, ...] = ()
    error: str = ""
    client: bool = False


@dataclass(frozen=True, slots=True)
class Past:
    """What is known of a rollout or a group from earlier messages.

    Attributes:
        since: unix time of its first one.
        links: spans that it follows from.
    """

    since: float
    links: tuple[Place, ...] = ()


def spans_of(message: Message, past: Past | None = None, *, content: bool = False) -> list[Span]:
    """What a message tells of.

    Args:
        message: as it was published.
        past: of its rollout or group, where it is known.
        content: whether to tell what was said in calls, too.
    """
    tell = _TELLERS.get(type(message))
    if tell is not None:
        return tell(message, past)
    return [_call(message, content)] if isinstance(message, CallRecorded) else []


def _ended(m: OutcomeMessage, past: Past | None) -> list[Span]:
    """An attempt and its stages, and the rollout if that is its end."""
    took = [(stage, float(getattr(m.durations, f"{stage}_s"))) for stage in STAGES]
    start = m.at - sum(seconds for _, seconds in took)
    error = m.reason if isinstance(m, RolloutFailed) else ""
    attempt = Span(
        name=f"attempt {m.attempt}", place=attempt_place(m), parent=rollout_place(m.run_id, m.rollout_id), start=start,
        end=m.at, attributes=_outcome(m), error=error,
    )  # fmt: skip
    spans = [attempt]
    for stage, seconds in took:
        if seconds:
            spans.append(
                Span(
                    name=stage, place=stage_place(m, stage), parent=attempt.place, start=start, end=start + seconds,
                    attributes=_about(m),
                )
            )  # fmt: skip
        start += seconds
    if not isinstance(m, RolloutFailed) or m.final:
        spans.append(_rollout(m, past or Past(attempt.start), error))
    return spans


def _rollout(m: OutcomeMessage, past: Past, error: str) -> Span:
    links = (group_place(m.run_id, m.group_id), *past.links)
    return Span(
        name=f"rollout {m.task}", place=rollout_place(m.run_id, m.rollout_id), parent=None, start=min(past.since, m.at),
        end=m.at, attributes=_outcome(m), links=links, error=error,
    )  # fmt: skip


def _outcome(m: OutcomeMessage) -> dict[str, Attribute]:
    said: dict[str, Attribute] = _about(m) | {
        "openforge.task": m.task, "openforge.harness": m.harness, "openforge.outcome": tag_of(type(m)).partition(".")[2],
        "openforge.stage": m.stage, "openforge.attempt": m.attempt,
    }  # fmt: skip
    if isinstance(m, RolloutFailed):
        return said | {"error.type": m.reason}
    if isinstance(m, RolloutTimedOut):
        said["openforge.reason"] = m.reason
    reward = m.reward if isinstance(m, RolloutFinished | RolloutTimedOut) else None
    return said if reward is None else said | {"openforge.reward": reward}


def _about(m: RolloutMessage) -> dict[str, Attribute]:
    return {
        "openforge.run": m.run_id, "openforge.rollout": m.rollout_id, "openforge.group": m.group_id,
        "openforge.purpose": m.purpose,
    }  # fmt: skip


def _call(m: CallRecorded, content: bool) -> Span:
    own: dict[str, Attribute] = {
        "openforge.seq": m.seq, "openforge.role": m.role, "openforge.api": m.api, "openforge.delivery": m.delivery,
        "openforge.parent": m.parent_status, "openforge.weight_version": m.weight_version_end, "openforge.engine": m.engine,
    }  # fmt: skip
    return Span(
        name=genai.name_of(m), place=_place(m), parent=attempt_place(m), start=m.at - m.latency_s, end=m.at,
        attributes=_about(m) | genai.attributes_of(m) | own | (genai.content_of(m) if content else {}), client=True,
    )  # fmt: skip


def _of_attempt(m: RolloutMessage, said: dict[str, Attribute], links: tuple[Place, ...] = (), error: str = "") -> list[Span]:
    """A moment of an attempt."""
    name = tag_of(type(m)).replace(".", " ")
    about = _about(m) | said
    return [
        Span(
            name=name,
            place=_place(m),
            parent=attempt_place(m),
            start=m.at,
            end=m.at,
            attributes=about,
            links=links,
            error=error,
        )
    ]


def _sealed(m: SessionSealed, past: Past | None) -> list[Span]:
    return _of_attempt(m, {"openforge.calls": m.calls, "openforge.calls_lost": len(m.lost), "openforge.calls_cut": len(m.cut)})


def _assembled(m: TrajectoryAssembled, past: Past | None) -> list[Span]:
    said: dict[str, Attribute] = {"openforge.reward": m.reward, "openforge.calls": m.calls, "openforge.rows": m.rows}
    tokens: dict[str, Attribute] = {f"openforge.tokens.{fate}": getattr(m.tokens, fate) for fate in _FATES}
    return _of_attempt(m, said | tokens, (group_place(m.run_id, m.group_id),))


_FATES = ("sampled", "trained", "masked", "dropped")


def _discarded(m: TrajectoryDiscarded, past: Past | None) -> list[Span]:
    return _of_attempt(m, {"error.type": m.reason}, (group_place(m.run_id, m.group_id),), m.reason)


def _group(m: GroupMessage, past: Past | None) -> list[Span]:
    reason = m.reason if isinstance(m, GroupDiscarded) else ""
    said: dict[str, Attribute] = {
        "openforge.run": m.run_id, "openforge.group": m.group_id, "openforge.purpose": m.purpose, "openforge.task": m.task,
        "openforge.outcome": reason or "completed",
    }  # fmt: skip
    return [
        Span(
            name=f"group {m.task}", place=_place(m), parent=None, start=min(past.since, m.at) if past else m.at, end=m.at,
            attributes=said, links=past.links if past else (),
        )
    ]  # fmt: skip


def _stepped(m: RunStepped, past: Past | None) -> list[Span]:
    took = m.metrics.get("timing_s/step", 0.0)
    said: dict[str, Attribute] = {"openforge.run": m.run_id, "openforge.step": m.step, "openforge.weight_version": m.version}
    links = tuple(group_place(m.run_id, group) for group in m.groups)
    place, start = _place(m), m.at - took
    spans = [Span(name=f"step {m.step}", place=place, parent=None, start=start, end=m.at, attributes=said, links=links)]
    for phase in PHASES:
        if seconds := m.metrics.get(f"timing_s/{phase}", 0.0):
            inner = phase_place(m, phase)
            spans.append(Span(name=phase, place=inner, parent=place, start=start, end=start + seconds, attributes=said))
            start += seconds
    return spans


def _pushed(m: WeightsPublished | WeightsLoaded | WeightsFailed, past: Past | None) -> list[Span]:
    """In the trace of the step that made the weights; the first ones were made by none."""
    said: dict[str, Attribute] = {"openforge.run": m.run_id, "openforge.weight_version": m.version}
    took, error = 0.0, ""
    if not isinstance(m, WeightsPublished):
        said["openforge.engine"] = m.engine
    if isinstance(m, WeightsLoaded):
        took, said["openforge.probe_gap"] = m.push_s, m.probe_gap
    if isinstance(m, WeightsFailed):
        error, said["error.type"] = m.error, "push"
    parent = version_place(m.run_id, m.version) if m.version else None
    name = {WeightsPublished: "weights written", WeightsLoaded: "push", WeightsFailed: "push"}[type(m)]
    return [
        Span(name=name, place=_place(m), parent=parent, start=m.at - took, end=m.at, attributes=said, error=error)
    ]  # fmt: skip


def _cancelled(m: RolloutCancel, past: Past | None) -> list[Span]:
    said = _about(m) | {"openforge.reason": m.reason}
    root = rollout_place(m.run_id, m.rollout_id)
    place = stage_place(m, "cancel")
    return [Span(name="rollout cancel", place=place, parent=root, start=m.at, end=m.at, attributes=said)]


def _place(message: Message) -> Place:
    place = place_of(message)
    assert place is not None, "every message that has spans has a place"
    return place


_TELLERS: dict[type[Message], Callable[[Any, Past | None], list[Span]]] = {
    RolloutFinished: _ended, RolloutTimedOut: _ended, RolloutFailed: _ended, RolloutCancel: _cancelled,
    SessionSealed: _sealed, TrajectoryAssembled: _assembled, TrajectoryDiscarded: _discarded,
    GroupCompleted: _group, GroupDiscarded: _group,
    RunStepped: _stepped,
    WeightsPublished: _pushed, WeightsLoaded: _pushed, WeightsFailed: _pushed,
}  # fmt: skip
