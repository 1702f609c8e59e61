"""One vote per trajectory in the group's baseline, credit per call, and a weight per trajectory in the loss."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import islice, product
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.trainer.batch.advantage import baselines, call_advantages, credit, loss_weights
from services.trainer.batch.samples import Vote, read_vote
from shared.config import AlgorithmConfig
from shared.events import Span
from tests.unit.trainer.trees import Rollout, groups, merged, unmerged
from tests.unit.trainer.twins import row, trajectory

rewards = st.lists(st.floats(-10, 10), min_size=2, max_size=8, unique=True)
settings_ = st.builds(
    AlgorithmConfig,
    adv_estimator=st.sampled_from(["grpo", "rloo"]),
    norm_adv_by_std_in_grpo=st.booleans(),
    gamma=st.sampled_from([1.0, 0.9, 0.5]),
    loss_weighting=st.sampled_from(["trajectory", "token-mean", "constant"]),
    loss_scale_factor=st.integers(1, 100),
)
lots = st.randoms(use_true_random=False)
trees = groups(st.floats(-2, 2))


def config(**trainer: Any) -> AlgorithmConfig:
    return msgspec.convert(trainer, AlgorithmConfig)


def last_call(after: int = 0) -> list[Span]:
    return [Span(seq=1, start=0, end=1, after=after)]


def advantages(values: list[float], settings: AlgorithmConfig) -> list[float]:
    """Of rollouts of one call each."""
    compared = zip(values, baselines(values, settings), strict=True)
    return [call_advantages(r, last_call(), b, settings.gamma)[0] for r, b in compared]


def by_rollout(made: Sequence[Sequence[Vote]], settings: AlgorithmConfig) -> list[dict[int, float]]:
    """For each rollout, the advantages of its trained calls by their numbers."""
    samples, found = iter(credit(made, settings)), []
    for vote in (vote for group in made for vote in group):
        own = islice(samples, sum(s.trained > 0 for s in vote.samples))
        found.append({span.seq: a for s in own for span, a in zip(s.spans, s.advantages, strict=True)})
    return found


@given(rewards, st.sampled_from([{"adv_estimator": "rloo"}, {}, {"norm_adv_by_std_in_grpo": False}]))
def test_advantages_of_a_group_sum_to_zero_and_keep_the_order_of_rewards(values: list[float], trainer: Any) -> None:
    found = advantages(values, config(**trainer))
    assert math.fsum(found) == pytest.approx(0, abs=1e-6)
    assert [a for _, a in sorted(zip(values, found, strict=True))] == sorted(found)


@given(rewards)
def test_grpo_is_in_units_of_the_deviation(values: list[float]) -> None:
    mean = math.fsum(values) / len(values)
    deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1))
    assert advantages(values, config()) == pytest.approx([(v - mean) / (deviation + 1e-6) for v in values])


@given(rewards)
def test_rloo_compares_with_the_others(values: list[float]) -> None:
    size, mean = len(values), math.fsum(values) / len(values)
    expected = [size / (size - 1) * (v - mean) for v in values]
    assert advantages(values, config(adv_estimator="rloo")) == pytest.approx(expected, abs=1e-9)


@given(settings_)
def test_a_group_of_one_or_of_equal_rewards_learns_nothing(settings: AlgorithmConfig) -> None:
    assert advantages([7.0], settings) == [0.0]
    assert advantages([1.0, 1.0, 1.0], settings) == [0.0, 0.0, 0.0]
    assert baselines([], settings) == []


@given(st.floats(0.1, 0.9), st.floats(0.3, 1), st.integers(0, 5))
def test_shaping_the_reward_leaves_rloo_unbiased_and_shrinks_grpo(p: float, gamma: float, after: int) -> None:
    """The expected gradient for a choice of two actions, over all outcomes: gamma^k times the true one, and (gamma^k - 1/G)."""
    size = 3
    for estimator, factor in (("rloo", gamma**after), ("grpo", gamma**after - 1 / size)):
        settings = config(adv_estimator=estimator, norm_adv_by_std_in_grpo=False)
        expected = 0.0
        for actions in product([0, 1], repeat=size):
            chance = math.prod(p if a else 1 - p for a in actions)
            values = [a + 0.1 * i for i, a in enumerate(actions)]  # so that no two rewards are ever equal
            for action, reward, baseline in zip(actions, values, baselines(values, settings), strict=True):
                (advantage,) = call_advantages(reward, last_call(after), baseline, gamma)
                expected += chance * (action - p) * advantage / size
        assert expected == pytest.approx(factor * p * (1 - p), abs=1e-12)


@given(st.lists(st.tuples(st.floats(-5, 5), st.integers(0, 50)), min_size=1).filter(lambda t: any(d for _, d in t)), settings_)
def test_the_weighted_sum_over_all_tokens_is_the_loss_that_is_asked_for(
    pairs: list[tuple[float, int]], settings: AlgorithmConfig
) -> None:
    trained, sums = [d for _, d in pairs], [a * d for a, d in pairs]
    voters = sum(d > 0 for d in trained)
    weighted = math.fsum(w * s for w, s in zip(loss_weights(trained, settings), sums, strict=True))
    asked = {
        "trajectory": math.fsum(a for a, d in pairs if d) / voters,
        "token-mean": math.fsum(sums) / sum(trained),
        "constant": math.fsum(sums) / voters / settings.loss_scale_factor,
    }
    assert weighted == pytest.approx(asked[settings.loss_weighting], abs=1e-9)


@given(trees, st.one_of(settings_, st.just(AlgorithmConfig(adv_estimator="reinforce_plus_plus_baseline"))), lots)
def test_neither_merging_nor_the_choice_of_the_row_that_trains_a_call_changes_its_advantage(
    made: list[list[Rollout]], settings: AlgorithmConfig, owners: random.Random
) -> None:
    one, other = (by_rollout([[merged(r, owners) for r in g] for g in made], settings) for _ in range(2))
    assert one == other == by_rollout([[unmerged(r) for r in g] for g in made], settings)
    assert [len(calls) for calls in one] == [sum(c.trained for c in r.calls) for g in made for r in g]


@given(trees, settings_, lots)
def test_more_rows_of_a_rollout_change_no_advantage(
    made: list[list[Rollout]], settings: AlgorithmConfig, owners: random.Random
) -> None:
    first, *others = made[0]
    short = Rollout(first.reward, first.calls[:1])
    begun, went_on = (by_rollout([[merged(r, owners) for r in [head, *others]]], settings) for head in (short, first))
    assert begun[1:] == went_on[1:]
    if settings.gamma == 1:
        assert begun[0].items() <= went_on[0].items()


@given(trees, settings_, lots)
def test_without_gamma_all_calls_of_a_rollout_have_one_advantage(
    made: list[list[Rollout]], settings: AlgorithmConfig, owners: random.Random
) -> None:
    flat = msgspec.structs.replace(settings, gamma=1.0)
    assert all(len(set(calls.values())) <= 1 for calls in by_rollout([[merged(r, owners) for r in g] for g in made], flat))


def test_whitened_advantages_have_mean_zero_and_deviation_one_over_all_tokens() -> None:
    rows = [trajectory("r", reward, made=[row(reply=[1] * size)]) for reward, size in ((0.0, 1), (1.0, 5), (1.0, 2), (4.0, 3))]
    samples = credit([[read_vote(r) for r in rows]], config(adv_estimator="reinforce_plus_plus_baseline"))
    values = [a for s in samples for a in s.advantages for _ in range(s.trained)]
    assert math.fsum(values) == pytest.approx(0, abs=1e-12)
    assert math.fsum(v * v for v in values) / (len(values) - 1) == pytest.approx(1, abs=1e-6)
    assert sorted(values) == values[:1] + values[1:]


def test_samples_know_their_group_and_their_trajectory() -> None:
    two_rows = [row(seq=1, after=1), row([1], [2], seq=2)]
    made = [[trajectory("a", 1.0, made=two_rows), trajectory("b", 0.0)], [trajectory("c", 1.0), trajectory("d", 0.0)]]
    samples = credit([[read_vote(r) for r in group] for group in made], config())
    assert [(s.group, s.trajectory) for s in samples] == [(0, 0), (0, 0), (0, 1), (1, 2), (1, 3)]


def test_a_trajectory_without_trained_tokens_counts_in_the_baseline_only() -> None:
    silent = Vote(0.0, [])
    votes = [read_vote(trajectory("r", 1.0)), read_vote(trajectory("r", 0.0)), silent]
    samples = credit([votes], config(norm_adv_by_std_in_grpo=False))
    assert [a for s in samples for a in s.advantages] == pytest.approx([2 / 3, -1 / 3])


def test_nothing_to_train_on_gives_no_samples() -> None:
    assert credit([], config()) == []
    assert credit([[Vote(1.0, []), Vote(0.0, [])]], config()) == []
