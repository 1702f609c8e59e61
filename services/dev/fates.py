"""What became of each recorded call, and why. Pure."""

from __future__ import annotations

from services.collector.history import Attempt, Group, Rollout
from shared.events import GroupCompleted, GroupDiscarded, RolloutFailed, RolloutFinished, RolloutTimedOut, TrajectoryDiscarded

TRAINED = "trained"


def call_fate(seq: int, attempt: Attempt, rollout: Rollout, group: Group) -> str:
    """`trained`, or the first reason why a call is not, or what it waits for."""
    settled = attempt.settled
    if settled is None:
        return "waits for the attempt"
    if isinstance(settled, TrajectoryDiscarded):
        return settled.reason
    for reason, numbers in settled.untrained.items():
        if seq in numbers:
            return reason
    if rollout.purpose == "eval":
        return "eval"
    if not settled.rows:  # the policy lets its reward count and masks its tokens
        return "timed_out"
    return _group_fate(attempt, rollout, group)


def _group_fate(attempt: Attempt, rollout: Rollout, group: Group) -> str:
    closed = group.closed
    if closed is None:
        return "waits for the group"
    if isinstance(closed, GroupDiscarded):
        return closed.reason
    votes = {(t.rollout_id, t.attempt) for t in closed.trajectories}
    return TRAINED if (rollout.rollout_id, attempt.number) in votes else "superseded"


def group_state(group: Group) -> str:
    """`open`, `completed`, or `discarded: <reason>`."""
    if group.closed is None:
        return "open"
    return "completed" if isinstance(group.closed, GroupCompleted) else f"discarded: {group.closed.reason}"


def reward_of(attempt: Attempt) -> float | None:
    """The verifier's reward; None where the attempt has none (yet)."""
    outcome = attempt.outcome
    return outcome.reward if isinstance(outcome, RolloutFinished | RolloutTimedOut) else None


def outcome_line(attempt: Attempt, timeout_policy: str) -> str:
    """How an attempt ended, with its reward and why it has that one or none."""
    match attempt.outcome:
        case RolloutFinished() as m:
            return f"finished: reward {m.reward:g} by the verifier; agent {m.agent_s:.1f} s, verifier {m.verify_s:.1f} s"
        case RolloutTimedOut() as m:
            scored = "no reward" if m.reward is None else f"reward {m.reward:g} of the state it had reached"
            return f"timed out after {m.limit_s:g} s: {scored}; timeout policy {timeout_policy}"
        case RolloutFailed() as m:
            return f"failed: no reward; {m.reason}: {m.detail or 'no detail'}{'' if m.final else '; another attempt followed'}"
    return "not ended"
