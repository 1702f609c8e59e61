"""Trajectories, groups and rows anew from a history, with the functions that made them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Literal

import msgspec

from services.collector.assemble import missing
from services.collector.attempt import Settled, conclude
from services.collector.groups import GroupInfo, Slot, decide, info_of
from services.collector.history import Attempt, Group, Rollout
from shared.config import CollectorConfig
from shared.events import GroupCompleted, GroupDiscarded, RolloutFailed, encode

Closed = GroupCompleted | GroupDiscarded
Verdict = Literal["same", "differs", "incomplete", "open"]
"""`incomplete`: calls or messages of the group are not in the archive; `open`: no message closed the group."""


@dataclass(frozen=True, slots=True)
class Regrouped:
    """A group as it was, and as it is made again.

    Attributes:
        group_id: which.
        was: the message that closed it.
        now: the message that would; None where the group would stay open.
        verdict: of comparing the two, byte for byte but for the time.
        gaps: what is not in the archive, one line each.
        by: unix seconds up to which attempts were settled when it was closed; infinite where all of them were.
    """

    group_id: str
    was: Closed | None
    now: Closed | None
    verdict: Verdict
    gaps: list[str]
    by: float


def regroup(group: Group, config: CollectorConfig) -> Regrouped:
    """Makes a group again from its calls and outcomes.

    A group that was closed before all its rollouts had ended is made from what was settled at that time.

    Args:
        group: of the history.
        config: the policies to apply; with those of the run, the message is the same again.
    """
    gaps = [gap for _, rollout in sorted(group.rollouts.items()) for gap in _gaps(rollout)]
    now, by = close(group, config, inf), inf
    if group.closed is not None and not _same(group.closed, now):
        early = close(group, config, group.closed.at)
        if _same(group.closed, early):
            now, by = early, group.closed.at
    return Regrouped(group.group_id, group.closed, now, _verdict(group, now, gaps), gaps, by)


def settle(attempt: Attempt, config: CollectorConfig) -> Settled | None:
    """What becomes of an attempt; None before its outcome and all its calls are there."""
    if attempt.outcome is None or _waits(attempt):
        return None
    return conclude(attempt.outcome, attempt.sealed, attempt.records, attempt.conflict, config)


def _waits(attempt: Attempt) -> bool:
    if attempt.sealed is None:
        return not (isinstance(attempt.outcome, RolloutFailed) and not attempt.outcome.sealed)
    return bool(missing(attempt.sealed, attempt.calls))


def close(group: Group, config: CollectorConfig, by: float) -> Closed | None:
    """The message that closes a group with what was settled by a time (unix seconds, infinite for everything); None where it
    would stay open."""
    told = group.announced
    if told is None:
        return None
    info = info_of(told)
    slots = {name: slot for name, r in sorted(group.rollouts.items()) if (slot := _slot(r, info, config, by)) is not None}
    return decide(info, slots, config, overdue=by < inf)


def _slot(rollout: Rollout, info: GroupInfo, config: CollectorConfig, by: float) -> Slot | None:
    """None before anything of the rollout was settled that is of the group as it was announced."""
    attempts = {n: a for n, a in rollout.attempts.items() if a.outcome is None or info_of(a.outcome) == info}
    settled = {n: made for n, a in attempts.items() if _settled_by(a, by) and (made := settle(a, config)) is not None}
    last = min((n for n, a in attempts.items() if a.last_at is not None and a.last_at <= by), default=None)
    return Slot(settled, last) if settled or last is not None else None


def _settled_by(attempt: Attempt, by: float) -> bool:
    return by == inf or (attempt.settled is not None and attempt.settled.at <= by)


def _verdict(group: Group, now: Closed | None, gaps: list[str]) -> Verdict:
    if group.closed is None:
        return "open"
    return "same" if _same(group.closed, now) else "incomplete" if gaps else "differs"


def _same(was: Closed, now: Closed | None) -> bool:
    """Whether two messages are the same bytes, but for the time. The body of one that travelled by reference was archived
    with it."""
    if now is None:
        return False
    plain = msgspec.structs.replace(was, ref=None) if isinstance(was, GroupCompleted) else was
    return encode(plain) == encode(msgspec.structs.replace(now, at=was.at))


def _gaps(rollout: Rollout) -> list[str]:
    return [f"{rollout.rollout_id} attempt {n}: {gap}" for n, a in sorted(rollout.attempts.items()) if (gap := _gap(a))]


def _gap(attempt: Attempt) -> str:
    if attempt.outcome is None:
        return "its outcome"
    if attempt.sealed is not None and (absent := missing(attempt.sealed, attempt.calls)):
        return f"the records of calls {absent}"
    return "the end of its session" if _waits(attempt) else ""
