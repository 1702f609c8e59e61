"""One vote per trajectory: in the group's baseline, and in the loss."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.trainer.advantage import fold_weights, group_advantages, weigh
from services.trainer.samples import Sample, Vote

votes = st.lists(st.tuples(st.floats(-5, 5), st.integers(0, 50)), min_size=1, max_size=10).filter(
    lambda t: any(d for _, d in t)
)
rewards = st.lists(st.floats(-10, 10), min_size=2, max_size=8)


def vote(reward: float, *trained: int) -> Vote:
    return Vote(reward, [Sample([1] * (n + 2), 1, [0] + [1] * n, [0.0] + [-1.0] * n) for n in trained])


@given(rewards, st.booleans())
def test_advantages_of_a_group_sum_to_zero_and_keep_the_order_of_rewards(values: list[float], by_std: bool) -> None:
    advantages = group_advantages(values, by_std)
    assert math.fsum(advantages) == pytest.approx(0, abs=1e-6)
    assert [a for _, a in sorted(zip(values, advantages, strict=True))] == sorted(advantages)


@given(rewards)
def test_advantages_are_in_units_of_the_deviation(values: list[float]) -> None:
    mean = math.fsum(values) / len(values)
    deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1))
    expected = [(v - mean) / (deviation + 1e-6) for v in values]
    assert group_advantages(values, by_std=True) == pytest.approx(expected)


def test_a_group_of_one_or_of_equal_rewards_learns_nothing() -> None:
    assert group_advantages([7.0]) == [0.0]
    assert group_advantages([1.0, 1.0, 1.0]) == [0.0, 0.0, 0.0]
    assert group_advantages([]) == []


@given(votes)
def test_a_token_mean_over_folded_advantages_is_a_mean_over_trajectories(pairs: list[tuple[float, int]]) -> None:
    advantages, trained = [a for a, _ in pairs], [d for _, d in pairs]
    folded = fold_weights(advantages, trained)
    token_mean = math.fsum(f * d for f, d in zip(folded, trained, strict=True)) / sum(trained)
    voters = [a for a, d in pairs if d]
    assert token_mean == pytest.approx(math.fsum(voters) / len(voters), abs=1e-9)


def test_more_rows_change_nothing_for_the_others() -> None:
    one = weigh([[vote(1.0, 6), vote(0.0, 6)]])
    three = weigh([[vote(1.0, 2, 2, 2), vote(0.0, 6)]])
    assert {s.advantage for s in three[:3]} == {one[0].advantage}
    assert three[3].advantage == one[1].advantage


def test_a_trajectory_without_trained_tokens_counts_in_the_baseline_only() -> None:
    with_it = weigh([[vote(1.0, 4), vote(0.0, 4), vote(0.0)]], by_std=False)
    assert [s.advantage for s in with_it] == pytest.approx([2 / 3, -1 / 3])


def test_nothing_to_train_on_gives_no_samples() -> None:
    assert weigh([]) == []
    assert weigh([[vote(1.0), vote(0.0)]]) == []
