"""Compares what the engine and the harnesses say with what reached the trainer's side. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec

from services.collector.calls import ID_BYTES, sampled
from shared.events import LATE, GroupCompleted, Row, TrajectoryDiscarded
from shared.ids import session_id
from tests.chaos.evidence import Closed, Evidence, Sampled

DISCARDED_SHARE = 0.1
"""Of the rollouts, at most so many may end without a trajectory."""

Trained = tuple[str, Sampled]
"""A call in a row: its session, and all ids before its completion with the completion."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What was found.

    Attributes:
        rollouts: that were asked for.
        kills: by -9.
        wipes: of the store.
        calls_expected: calls that the engine finished and whose reply reached the harness whole.
        calls_found: of them, those that are trained exactly once, token for token, in a completed group, or whose attempt or
            group was discarded with a reason.
        calls_doubled: calls that are trained more than once.
        groups_expected: that were asked for.
        groups_found: of them, those that were completed or discarded.
        groups_doubled: of them, those that were so more than once.
        tokens_unaccounted: by which records, trajectories, groups and rows differ where they count the same.
        discarded_with_reason: rollouts that are in no completed group's trajectories, and of which it is said why.
        discarded_without_reason: of which it is not.
        attempts_discarded: attempts, by reason; most of them were followed by another. What is `late` may be in it twice.
        dead_letters: messages that were given up; each is an effect that never came.
        wall_s: seconds from the first command to the last group.
    """

    rollouts: int
    kills: int
    wipes: int
    calls_expected: int
    calls_found: int
    calls_doubled: int
    groups_expected: int
    groups_found: int
    groups_doubled: int
    tokens_unaccounted: int
    discarded_with_reason: int
    discarded_without_reason: int
    attempts_discarded: dict[str, int]
    dead_letters: int
    wall_s: float = 0.0

    def holds(self, kills: int, wipes: int) -> bool:
        """Whether nothing was lost or doubled although so much was killed."""
        return (
            (self.kills, self.wipes) >= (kills, wipes)
            and self.calls_found == self.calls_expected > 0
            and self.groups_found == self.groups_expected
            and not (self.calls_doubled or self.groups_doubled or self.tokens_unaccounted)
            and not (self.discarded_without_reason or self.dead_letters)
            and self.discarded_with_reason <= DISCARDED_SHARE * self.rollouts
        )


def judge(evidence: Evidence, *, kills: int, wipes: int, wall_s: float = 0.0) -> Verdict:
    """The verdict on a run."""
    expected = sum(map(len, evidence.received.values()))
    groups = Counter(m.group_id for m in evidence.closed)
    explained, unexplained = _discarded(evidence)
    return Verdict(
        rollouts=sum(evidence.sizes.values()),
        kills=kills,
        wipes=wipes,
        calls_expected=expected,
        calls_found=expected - len(not_found(evidence)),
        calls_doubled=sum(times > 1 for times in Counter(_trained(evidence)).values()),
        groups_expected=len(evidence.sizes),
        groups_found=len(groups.keys() & evidence.sizes.keys()),
        groups_doubled=sum(times > 1 for times in groups.values()),
        tokens_unaccounted=_unaccounted(evidence),
        discarded_with_reason=explained,
        discarded_without_reason=unexplained,
        attempts_discarded=dict(Counter(m.reason for m in evidence.told if isinstance(m, TrajectoryDiscarded))),
        dead_letters=len(evidence.dead),
        wall_s=round(wall_s, 1),
    )


def not_found(evidence: Evidence) -> list[str]:
    """Expected calls that are neither trained once nor discarded with a reason, each as `session: number`."""
    trained, excused = Counter(_trained(evidence)), _excused(evidence)

    def found(session: str, number: int) -> bool:
        call = evidence.sampled.get(number)
        return call is not None and (session in excused or trained[session, call] == 1)

    received = [(session, number) for session, numbers in evidence.received.items() for number in numbers]
    return [f"{session}: {number}" for session, number in received if not found(session, number)]


def _trained(evidence: Evidence) -> Iterator[Trained]:
    """Every completion that a row of a completed group trains."""
    for group in evidence.closed:
        for made in group.trajectories if isinstance(group, GroupCompleted) else ():
            for row in made.rows:
                for call in _calls(row):
                    yield session_id(made.rollout_id, made.attempt), call


def _calls(row: Row) -> Iterator[Sampled]:
    for span in row.spans:
        start, end = span.start * ID_BYTES, span.end * ID_BYTES
        yield Sampled(row.ids[:start], row.ids[start:end])


def _excused(evidence: Evidence) -> set[str]:
    """Sessions that train nothing, for a reason that was told: their own, or their group's."""
    voted = {
        session_id(t.rollout_id, t.attempt) for g in evidence.closed if isinstance(g, GroupCompleted) for t in g.trajectories
    }
    dropped = {g.group_id for g in evidence.closed if not isinstance(g, GroupCompleted) and g.reason}
    told = {
        session_id(m.rollout_id, m.attempt)
        for m in evidence.told
        if m.group_id in dropped or (isinstance(m, TrajectoryDiscarded) and m.reason)
    }
    return told - voted


def _discarded(evidence: Evidence) -> tuple[int, int]:
    """Rollouts without a trajectory: (those whose group says what became of each of its rollouts, the others)."""
    explained = unexplained = 0
    closed = {g.group_id: g for g in evidence.closed}
    for group_id, size in evidence.sizes.items():
        group = closed.get(group_id)
        votes = len(group.trajectories) if isinstance(group, GroupCompleted) else 0
        if group is not None and sum(group.outcomes.values()) == size:
            explained += size - votes
        else:
            unexplained += size - votes
    return explained, unexplained


def _unaccounted(evidence: Evidence) -> int:
    counted = {session_id(r, n) for group in evidence.closed for r, numbers in group.attempts.items() for n in numbers}
    told = {session_id(m.rollout_id, m.attempt): m for m in evidence.told}
    late = {s for s, m in told.items() if isinstance(m, TrajectoryDiscarded) and m.reason == LATE} - counted
    sampled: Counter[str] = Counter()
    for session in told.keys() - late:  # a group counts all others
        sampled[told[session].group_id] += told[session].tokens.sampled
    groups = sum(_imbalance(group) + abs(group.tokens.sampled - sampled[group.group_id]) for group in evidence.closed)
    return groups + _untold(evidence)


def _imbalance(group: Closed) -> int:
    """Of a group's counts, and of them with its rows."""
    counts = group.tokens
    apart = abs(counts.sampled - counts.trained - counts.masked - counts.dropped)
    made = group.trajectories if isinstance(group, GroupCompleted) else []
    return apart + abs(counts.trained - sum(sum(row.response_mask) for t in made for row in t.rows))


def _untold(evidence: Evidence) -> int:
    """Tokens on record that the collector does not tell of, or the other way round; in sessions that lost calls, a record
    may have come after all was told."""
    whole = {m.session_id for m in evidence.sealed if not m.lost}
    recorded: Counter[str] = Counter()
    for record in evidence.records:
        recorded[record.session_id] += sampled(record)
    told = {session_id(m.rollout_id, m.attempt): m.tokens.sampled for m in evidence.told}
    return sum(abs(recorded[session] - told[session]) for session in whole & told.keys())
