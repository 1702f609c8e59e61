"""What becomes of an attempt: a vote, or a reason why not."""

from __future__ import annotations

from typing import Any, Literal, get_args

import pytest

from services.collector.attempt import Outcome, Settled, conclude, too_late
from shared.config import CollectorConfig
from shared.events import Purpose, RolloutFailed, RolloutFinished, RolloutTimedOut, TokenCounts
from tests.unit.collector.rollouts import Session, adds_up, changed, ended

Policy = Literal["discard", "zero", "mask", "keep_prefix"]
POLICIES: tuple[Policy, ...] = get_args(Policy)
CONFIG = CollectorConfig()


def two_calls() -> Session:
    session = Session()
    session.call([1], [2])
    session.call([1, 2, 9], [3, 3], delivery="cut")
    return session


def settle(outcome: Outcome, policy: Policy = "discard", **seal: Any) -> Settled:
    session = two_calls()
    return conclude(outcome, session.sealed(**seal), session.records, None, CollectorConfig(timeout_policy=policy))


def end(purpose: Purpose = "train", reward: float = 0.5) -> RolloutFinished:
    return RolloutFinished(**ended(), purpose=purpose, reward=reward)


def timeout(reward: float | None, purpose: Purpose = "train") -> RolloutTimedOut:
    return RolloutTimedOut(**ended(), purpose=purpose, reward=reward, limit_s=1)


def failure(**fields: Any) -> RolloutFailed:
    return RolloutFailed(**ended(), **{"reason": "VerifierError", "detail": "no reward", **fields})


def test_a_finished_attempt_has_a_vote() -> None:
    settled = settle(end())
    assert (settled.outcome, settled.final) == ("finished", True)
    assert settled.trajectory is not None
    assert (settled.trajectory.reward, settled.trajectory.calls, len(settled.trajectory.rows)) == (0.5, 2, 1)
    assert settled.tokens == settled.trajectory.tokens == TokenCounts(sampled=3, trained=1, masked=2, reasons={"cut": 2})


@pytest.mark.parametrize("purpose", ["train", "eval"])
def test_a_teachers_calls_are_scored_and_never_trained_on(purpose: Purpose) -> None:
    session = Session()
    for _ in range(2):
        session.call([], [], tokens=False)
    settled = conclude(end(purpose), session.sealed(), session.records, None, CONFIG)
    assert (settled.final, settled.tokens) == (True, TokenCounts())
    if purpose == "train":
        assert (settled.outcome, settled.trajectory) == ("teacher", None)
        assert "proxy.mode" in settled.detail
    else:
        assert settled.trajectory is not None
        assert (settled.trajectory.reward, settled.trajectory.calls, settled.trajectory.rows) == (0.5, 2, [])


@pytest.mark.parametrize("outcome", [end("eval"), timeout(0.5, "eval")])
def test_evaluation_takes_the_reward_and_no_rows(outcome: RolloutFinished | RolloutTimedOut) -> None:
    settled = settle(outcome)
    assert settled.trajectory is not None
    assert (settled.trajectory.reward, settled.trajectory.rows) == (0.5, [])
    assert settled.tokens == TokenCounts(sampled=3, masked=2, dropped=1, reasons={"cut": 2, "eval": 1})


@pytest.mark.parametrize(
    ("policy", "reward", "vote", "trained"),
    [
        ("discard", 1.0, None, 0),
        ("zero", 1.0, 0.0, 1),
        ("zero", None, 0.0, 1),
        ("mask", 1.0, 1.0, 0),
        ("mask", None, None, 0),
        ("discard", None, None, 0),
        ("zero", 0.0, 0.0, 1),
        ("keep_prefix", 1.0, 1.0, 1),
        ("keep_prefix", -2.5, -2.5, 1),
        ("keep_prefix", None, None, 0),
    ],
)
def test_timeout_policy(policy: Policy, reward: float | None, vote: float | None, trained: int) -> None:
    settled = settle(timeout(reward), policy)
    assert (settled.outcome, settled.final) == ("timed_out", True)
    assert (settled.trajectory.reward if settled.trajectory else None) == vote
    assert settled.tokens.trained == trained
    assert adds_up(settled.tokens)
    if settled.trajectory:
        assert settled.trajectory.timed_out
        assert len(settled.trajectory.rows) == trained


def test_a_missing_reward_is_no_vote_in_evaluation_either() -> None:
    assert settle(timeout(None, "eval"), "mask").trajectory is None


def test_a_failure_drops_its_tokens_and_may_be_followed_by_another_attempt() -> None:
    settled = settle(failure(), errored=[2])
    assert (settled.outcome, settled.final, settled.trajectory, settled.detail) == ("VerifierError", False, None, "no reward")
    assert settled.tokens == TokenCounts(sampled=3, dropped=3, reasons={"VerifierError": 1, "lost": 2})
    without_session = conclude(failure(), None, [], None, CONFIG)
    assert without_session.tokens == TokenCounts()


@pytest.mark.parametrize("conflict", [None, "2"])
def test_records_that_cannot_be_trusted_make_a_finished_attempt_a_failed_one(conflict: str | None) -> None:
    session = two_calls()
    if conflict is None:
        session.records[1] = changed(session.records[1], prompt_digest="0")
    settled = conclude(end(), session.sealed(), session.records, conflict, CONFIG)
    assert (settled.outcome, settled.final, settled.trajectory) == ("FidelityError", False, None)
    assert "call 2 of session r1-a1" in settled.detail
    assert settled.tokens == TokenCounts(sampled=3, dropped=3, reasons={"FidelityError": 3})


def test_records_that_cannot_be_trusted_end_a_rollout_that_ran_out_of_time() -> None:
    settled = settle(timeout(1.0), "mask", lost=[2])
    assert (settled.outcome, settled.final, settled.trajectory) == ("timed_out", True, None)
    assert settled.tokens.reasons == {"timed_out": 1, "lost": 2}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("reward", [0.0, 0.5])
def test_a_policy_for_timeouts_changes_nothing_else(policy: Policy, reward: float) -> None:
    assert settle(end(reward=reward), policy) == settle(end(reward=reward))
    assert settle(timeout(reward, "eval"), policy) == settle(timeout(reward, "eval"))
    assert settle(timeout(None, "eval"), policy).trajectory is None
    assert settle(failure(), policy) == settle(failure())
    assert settle(end(), policy, lost=[2]).trajectory is None


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("reward", [None, 1.0])
def test_a_rollout_that_lost_a_call_has_no_vote_under_any_policy(policy: Policy, reward: float | None) -> None:
    settled = settle(timeout(reward), policy, lost=[2])
    assert (settled.outcome, settled.final, settled.trajectory, settled.tokens.trained) == ("timed_out", True, None, 0)
    assert adds_up(settled.tokens)


def test_keep_prefix_trains_the_calls_up_to_the_last_whole_one() -> None:
    session = Session()
    session.call([1], [2])
    session.call([1, 2, 9], [3, 3], delivery="cut")
    session.call([7], [8])  # another agent's, whole
    settled = conclude(timeout(0.75), session.sealed(), session.records, None, CollectorConfig(timeout_policy="keep_prefix"))
    assert settled.trajectory is not None
    assert (settled.trajectory.reward, settled.trajectory.timed_out) == (0.75, True)
    assert [[s.seq for s in row.spans] for row in settled.trajectory.rows] == [[1], [3]]
    assert settled.untrained == {"cut": [2]}


def test_keep_prefix_trains_a_call_without_its_cut_successor_even_when_the_cut_is_only_in_the_seal() -> None:
    session = Session()
    session.call([1], [2])
    session.call([1, 2, 9], [3])
    config = CollectorConfig(timeout_policy="keep_prefix")
    settled = conclude(timeout(1.0), session.sealed(cut=[2]), session.records, None, config)
    assert settled.tokens == TokenCounts(sampled=2, trained=1, masked=1, reasons={"cut": 1})


def test_an_attempt_that_comes_too_late_has_no_vote_and_its_tokens_a_reason() -> None:
    settled = too_late(settle(end()))
    assert (settled.outcome, settled.final, settled.trajectory) == ("late", True, None)
    assert settled.tokens == TokenCounts(sampled=3, masked=2, dropped=1, reasons={"cut": 2, "late": 1})
    assert "finished" in settled.detail
