"""What becomes of an attempt once its outcome and all its calls are known: a vote in its group, or nothing. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from services.collector.assemble import Assembled, assemble, unusable
from services.collector.calls import fates
from services.collector.tokens import count, untrain
from shared.config import CollectorConfig
from shared.errors import FidelityError
from shared.events import (
    LATE,
    CallRecorded,
    RolloutFailed,
    RolloutFinished,
    RolloutTimedOut,
    Row,
    SessionSealed,
    TokenCounts,
    Trajectory,
)

Ended = RolloutFinished | RolloutTimedOut
"""The message that ends a rollout whose agent ran to its end, or to the end of its time."""
Outcome = Ended | RolloutFailed
"""The message that ends an attempt."""


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an attempt.

    Attributes:
        outcome: `finished`, `timed_out`, or the reason of failure.
        final: it is the rollout's last; a failure's end is noted apart, for it may be declared after the attempt was settled.
        tokens: where its sampled tokens went.
        trajectory: None when it has no vote.
        untrained: with a vote, numbers of the calls that no row trains, per reason.
        detail: without one, one line for a person.
    """

    outcome: str
    final: bool
    tokens: TokenCounts
    trajectory: Trajectory | None = None
    untrained: dict[str, list[int]] = {}
    detail: str = ""


def conclude(
    outcome: Outcome,
    sealed: SessionSealed | None,
    records: Sequence[CallRecorded],
    conflict: str | None,
    config: CollectorConfig,
) -> Settled:
    """Settles an attempt.

    Args:
        outcome: how it ended.
        sealed: of its session; None only for a failure that had none.
        records: of its calls.
        conflict: number of a call that was recorded twice with different content.
        config: timeout policy and longest row.
    """
    if isinstance(outcome, RolloutFailed):
        return _without_vote(outcome.reason, outcome.detail, sealed, records)
    if outcome.purpose == "train" and not all(r.tokens for r in records):
        detail = "its calls have no token ids to train on (proxy.mode = teacher)"
        return _without_vote("teacher", detail, sealed, records, final=True)
    timed_out = isinstance(outcome, RolloutTimedOut)
    reward = _reward(outcome, config)
    if reward is None:
        detail = f"reward {outcome.reward}, timeout policy {config.timeout_policy!r}"
        return _without_vote("timed_out", detail, sealed, records, final=True)
    try:
        return _with_vote(outcome, reward, _assemble(sealed, records, conflict, config), config)
    except FidelityError as e:
        return _without_vote("timed_out" if timed_out else "FidelityError", str(e), sealed, records, final=timed_out)


def too_late(settled: Settled) -> Settled:
    """The same attempt, settled when its group was closed already."""
    return Settled(
        outcome=LATE,
        final=True,
        tokens=untrain(settled.tokens, LATE),
        detail=f"its group was closed before this attempt ({settled.outcome}) was complete",
    )


def _without_vote(
    reason: str, detail: str, sealed: SessionSealed | None, records: Sequence[CallRecorded], *, final: bool = False
) -> Settled:
    lost = dict.fromkeys(unusable(sealed) if sealed else (), "lost")
    tokens = count(fates(records, lost, reason))
    return Settled(outcome=reason, final=final, tokens=tokens, detail=detail)


def _assemble(
    sealed: SessionSealed | None, records: Sequence[CallRecorded], conflict: str | None, config: CollectorConfig
) -> Assembled:
    if sealed is None:
        raise FidelityError("the session was never sealed; nobody knows how many calls it had")
    if conflict is not None:
        raise FidelityError(f"call {conflict} of session {sealed.session_id} was recorded twice with different content")
    return assemble(records, sealed, max_row_tokens=config.max_row_tokens)


def _with_vote(outcome: Ended, reward: float, assembled: Assembled, config: CollectorConfig) -> Settled:
    timed_out = isinstance(outcome, RolloutTimedOut)
    rows, tokens = _trained_part(outcome, assembled, config)
    trajectory = Trajectory(
        rollout_id=outcome.rollout_id, attempt=outcome.attempt, task=outcome.task, harness=outcome.harness, reward=reward,
        timed_out=timed_out, calls=assembled.calls, tokens=tokens, rows=rows,
        min_version=assembled.min_version, max_version=assembled.max_version,
    )  # fmt: skip
    name = "timed_out" if timed_out else "finished"
    return Settled(outcome=name, final=True, tokens=tokens, trajectory=trajectory, untrained=assembled.untrained)


def _reward(outcome: Ended, config: CollectorConfig) -> float | None:
    """Evaluation scores every state that was verified; in training, the policy decides on rollouts that ran out of time."""
    if isinstance(outcome, RolloutFinished) or outcome.purpose == "eval":
        return outcome.reward
    return {"discard": None, "zero": 0.0, "mask": outcome.reward, "keep_prefix": outcome.reward}[config.timeout_policy]


def _trained_part(outcome: Ended, assembled: Assembled, config: CollectorConfig) -> tuple[list[Row], TokenCounts]:
    if outcome.purpose == "eval":
        return [], untrain(assembled.tokens, "eval")
    if isinstance(outcome, RolloutTimedOut) and config.timeout_policy == "mask":
        return [], untrain(assembled.tokens, "timed_out", into="masked")
    return assembled.rows, assembled.tokens
