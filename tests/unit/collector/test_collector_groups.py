"""When a group closes, which rollouts have a vote in it, and where its tokens went."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.collector.attempt import Settled
from services.collector.groups import GroupInfo, Slot, decide, read_slots
from services.collector.tokens import count, total, untrain
from shared.config import CollectorConfig
from shared.events import GroupCompleted, GroupDiscarded, Purpose, TokenCounts, Trajectory
from tests.unit.collector.rollouts import GROUP, RUN, adds_up, few

CONFIG = CollectorConfig()


def info(size: int = 4, purpose: Purpose = "train") -> GroupInfo:
    return GroupInfo(run_id=RUN, group_id=GROUP, size=size, purpose=purpose, task="task")


def finished(rollout: str, reward: float, attempt: int = 1) -> Settled:
    tokens = TokenCounts(sampled=5, trained=3, masked=2, reasons={"cut": 2})
    vote = Trajectory(rollout_id=rollout, attempt=attempt, task="task", harness="h", reward=reward, tokens=tokens)
    return Settled(outcome="finished", final=True, tokens=tokens, trajectory=vote)


def failed(reason: str = "SandboxError") -> Settled:
    return Settled(outcome=reason, final=False, tokens=TokenCounts(sampled=1, dropped=1, reasons={reason: 1}))


def slots(rewards: Sequence[float | None]) -> dict[str, Slot]:
    """One finished slot per reward; None is one whose only attempt failed."""
    return {
        f"r{i}": Slot({1: failed()}, last=1) if reward is None else Slot({1: finished(f"r{i}", reward)})
        for i, reward in enumerate(rewards)
    }


def test_a_whole_group_completes_with_its_votes_in_order() -> None:
    message = decide(info(), dict(reversed(slots([0, 1, 0, 1]).items())), CONFIG)
    assert isinstance(message, GroupCompleted)
    assert [(t.rollout_id, t.reward) for t in message.trajectories] == [("r0", 0), ("r1", 1), ("r2", 0), ("r3", 1)]
    assert message.tokens == TokenCounts(sampled=20, trained=12, masked=8, reasons={"cut": 8})
    assert message.outcomes == {"finished": 4}
    assert (message.run_id, message.group_id, message.task) == (RUN, GROUP, "task")


@pytest.mark.parametrize(
    ("rewards", "strict", "min_group", "reason"),
    [
        ([0, 1, None, None], False, 0, None),
        ([0, 1, None, None], True, 0, "too_few"),
        ([0, 1, 1, None], True, 0, "too_few"),
        ([0, None, None, None], False, 0, "too_few"),
        ([None, None, None, None], False, 0, "too_few"),
        ([1, 1, 1, 1], False, 0, "no_variance"),
        ([1, 1, 1, 1 + 1e-6], False, 0, "no_variance"),
        ([-2, -2, -2 - 2.9e-6, -2], False, 0, "no_variance"),
        ([1, 1, 1, 1 + 3e-6], False, 0, None),
        ([0, 1, 0], False, 0, None),
        ([0, None, None], False, 0, "too_few"),
        ([0, 1, None], False, 0, None),
        ([0, 1, None, None, None], False, 0, "too_few"),
        ([0], False, 0, "too_few"),
        ([0, 1, None, None, None], False, 2, None),
        ([0, 1, 1, None], False, 4, "too_few"),
        ([0, 1, 1, 1], False, 4, None),
        ([0, 1, None, None], True, 2, "too_few"),
        ([0], False, 1, "no_variance"),
    ],
)
def test_admission_to_training(rewards: list[float | None], strict: bool, min_group: int, reason: str | None) -> None:
    message = decide(info(len(rewards)), slots(rewards), CollectorConfig(strict=strict, min_group=min_group))
    assert message is not None
    assert adds_up(message.tokens)
    assert sum(message.outcomes.values()) == len(rewards)
    if reason is None:
        assert isinstance(message, GroupCompleted)
        assert len(message.trajectories) == sum(r is not None for r in rewards)
    else:
        assert isinstance(message, GroupDiscarded)
        assert (message.reason, message.tokens.trained) == (reason, 0)
        assert message.tokens.reasons.get(reason, 0) == 3 * sum(r is not None for r in rewards)


@pytest.mark.parametrize("rewards", [[1, 1, 1, 1], [0, None, None, None], [None] * 4])
def test_evaluation_knows_no_rule_of_admission(rewards: list[float | None]) -> None:
    message = decide(info(purpose="eval"), slots(rewards), CollectorConfig(strict=True))
    assert isinstance(message, GroupCompleted)
    assert [t.reward for t in message.trajectories] == [r for r in rewards if r is not None]


def test_a_group_stays_open_until_all_its_rollouts_are_final() -> None:
    assert decide(info(), slots([0, 1, 1]), CONFIG) is None
    assert decide(info(), {**slots([0, 1, 1]), "r3": Slot({1: failed()})}, CONFIG) is None
    assert decide(info(), {**slots([0, 1, 1]), "r3": Slot(last=1)}, CONFIG) is None
    assert decide(info(), {}, CONFIG) is None


@pytest.mark.parametrize(
    ("slot", "final"),
    [
        (Slot(), False),
        (Slot({1: failed()}), False),
        (Slot({1: failed()}, last=1), True),
        (Slot({1: failed()}, last=2), False),
        (Slot({2: failed()}, last=2), False),
        (Slot({1: failed(), 2: failed()}, last=2), True),
        (Slot({2: finished("r", 1, 2)}), False),
        (Slot({1: failed(), 2: finished("r", 1, 2)}), True),
        (Slot({1: finished("r", 1), 2: failed()}, last=3), True),
    ],
)
def test_a_slot_is_final_when_no_attempt_follows_and_all_are_known(slot: Slot, final: bool) -> None:
    assert slot.final is final


def test_of_two_attempts_with_a_vote_the_first_has_it_and_the_other_is_accounted_for() -> None:
    slot = Slot({2: finished("r", 1, 2), 1: finished("r", 0, 1)})
    assert slot.vote is not None
    assert slot.vote.attempt == 1
    assert slot.tokens == TokenCounts(sampled=10, trained=3, masked=4, dropped=3, reasons={"cut": 4, "superseded": 3})


def test_the_deadline_closes_a_group_with_what_is_there() -> None:
    waiting = {**slots([0, 1]), "r2": Slot({2: failed(), 1: failed()}), "r3": Slot(last=1)}
    message = decide(info(), waiting, CONFIG, overdue=True)
    assert isinstance(message, GroupCompleted)
    assert message.outcomes == {"finished": 2, "SandboxError": 1, "deadline": 1}
    assert message.attempts == {"r0": [1], "r1": [1], "r2": [1, 2]}
    short = decide(info(), slots([1]), CONFIG, overdue=True)
    assert isinstance(short, GroupDiscarded)
    assert (short.reason, short.outcomes, short.attempts) == ("deadline", {"finished": 1, "deadline": 3}, {"r0": [1]})
    assert adds_up(short.tokens)


def test_slots_are_read_from_what_the_store_keeps() -> None:
    settled = {("r1", 1): msgspec.json.encode(failed()), ("r1", 0): b"2", ("r2", 1): msgspec.json.encode(finished("r2", 1))}
    assert read_slots(settled) == {"r1": Slot({1: failed()}, last=2), "r2": Slot({1: finished("r2", 1)})}


parts = st.lists(st.tuples(st.integers(0, 5), st.sampled_from([None, "aux", "cut", "overlong", "lost"])))


@few
@given(parts, parts, st.sampled_from(["masked", "dropped"]))
def test_token_counts_add_up_whatever_is_done_with_them(a: Any, b: Any, into: Literal["masked", "dropped"]) -> None:
    counts = [count(a), untrain(count(b), "cut", into)]
    for tokens in (*counts, total(counts), untrain(total(counts), "too_few")):
        assert adds_up(tokens)
    assert total(counts).sampled == sum(n for n, _ in a + b)
    assert untrain(total(counts), "too_few").trained == 0
