"""Credit and weights through veRL's own loss: merged rows learn what separate calls learn, and what the formula says."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from services.collector.assemble import assemble
from services.trainer.advantage import weigh
from services.trainer.samples import Sample, Vote, read_vote
from shared.config import AlgorithmConfig
from shared.events import Span
from tests.contract.verl_kit import Policy, gradients, plain_loss, verl_loss
from tests.unit.collector.rollouts import Session, sessions
from tests.unit.trainer.trees import Call, Rollout, groups, merged, unmerged
from tests.unit.trainer.twins import trajectory

pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore")]

EXACT = 1e-12
SINGLE = 1e-6
"""Relative error of advantages, which veRL takes in float32."""

trees = groups(st.floats(-2, 2))
lots = st.randoms(use_true_random=False)
configs = st.builds(
    AlgorithmConfig,
    adv_estimator=st.sampled_from(["grpo", "rloo"]),
    norm_adv_by_std_in_grpo=st.booleans(),
    gamma=st.sampled_from([1.0, 0.9]),
    loss_weighting=st.sampled_from(["trajectory", "token-mean", "constant"]),
    loss_scale_factor=st.just(16),
)
examples = settings(max_examples=25, deadline=None)


def batch_of(made: Iterable[Iterable[Rollout]], rows: Callable[[Rollout], Any], config: AlgorithmConfig) -> list[Sample]:
    return weigh([[rows(r) for r in group] for group in made], config)


def separate(vote: Vote) -> Vote:
    """A trajectory with a row for each of its calls."""
    calls = [(s, span) for s in vote.samples for span in s.spans]
    return Vote(vote.reward, [single_call(s, span) for s, span in calls])


def single_call(row: Sample, call: Span) -> Sample:
    size = call.end - call.start
    return Sample(row.ids[: call.end], call.start, [1] * size, [-1.0] * size, [call])


def assert_same_learning(rows: Sequence[Sample], other: Sequence[Sample]) -> None:
    """Loss and gradient are the same, away from the sampling weights as well."""
    policy, old = Policy(0), Policy(1)
    loss, expected = (verl_loss(batch, policy, old) for batch in (rows, other))
    assert loss.item() == pytest.approx(expected.item(), rel=EXACT, abs=EXACT)
    for found, wanted in zip(gradients(loss, policy), gradients(expected, policy), strict=True):
        assert (found - wanted).abs().max() <= EXACT * (1 + wanted.abs().max())


@examples
@given(trees, configs, lots)
def test_merged_rows_have_the_loss_and_the_gradient_of_separate_calls(
    made: list[list[Rollout]], config: AlgorithmConfig, owners: random.Random
) -> None:
    alone = batch_of(made, unmerged, config)
    for _ in range(2):  # the second time, other rows train the shared calls
        assert_same_learning(batch_of(made, lambda r: merged(r, owners), config), alone)


@examples
@given(st.lists(sessions(), min_size=2, max_size=3), configs)
def test_so_have_the_rows_that_the_collector_makes(made: list[Session], config: AlgorithmConfig) -> None:
    """Rollouts with retries, rewritten histories, helpers and replies that were cut off."""
    rows = [assemble(s.records, s.sealed(), max_row_tokens=1000).rows for s in made]
    assume(any(rows))
    votes = [read_vote(trajectory("r", i * i, made=r)) if r else Vote(i * i, []) for i, r in enumerate(rows)]
    one, alone = weigh([votes], config), weigh([[separate(v) for v in votes]], config)
    assert_same_learning(one, alone)


@examples
@given(trees, configs, lots)
def test_verls_loss_is_the_documented_formula(
    made: list[list[Rollout]], config: AlgorithmConfig, owners: random.Random
) -> None:
    policy, old = Policy(0), Policy(1)
    expected = plain_loss(made, config, policy, old)
    rows = batch_of(made, lambda r: merged(r, owners), config)
    assert verl_loss(rows, policy, old).item() == pytest.approx(expected, rel=SINGLE, abs=SINGLE)


@examples
@given(trees, configs, lots)
def test_on_policy_the_ratio_is_one(made: list[list[Rollout]], config: AlgorithmConfig, owners: random.Random) -> None:
    """The loss is then minus the mean of the weighted advantages, and nothing is clipped."""
    policy, rows = Policy(0), batch_of(made, lambda r: merged(r, owners), config)
    terms = [a * (span.end - span.start) for s in rows for span, a in zip(s.spans, s.advantages, strict=True)]
    expected = -math.fsum(terms) / sum(s.trained for s in rows)
    assert verl_loss(rows, policy, policy).item() == pytest.approx(expected, rel=SINGLE, abs=SINGLE)


def test_a_mean_over_rows_would_depend_on_how_calls_are_merged() -> None:
    """veRL's seq-mean-token-mean gives every row one vote: what the identity above would look like if it did not hold."""
    root = Call(1, None, (1, 2, 3), 2, True)
    calls = [root, Call(2, root, (1, 2, 3, 4, 5, 6, 7), 3, True), Call(3, None, (8, 9), 1, True)]
    made = [[Rollout(1.0, calls), Rollout(0.0, [Call(1, None, (5, 6, 7), 2, True)])]]
    policy, old, config = Policy(0), Policy(1), AlgorithmConfig()
    rows = batch_of(made, lambda r: merged(r, random.Random(0)), config)
    alone = batch_of(made, unmerged, config)
    one, other = (verl_loss(batch, policy, old, "seq-mean-token-mean").item() for batch in (rows, alone))
    assert abs(one - other) > 0.01
    assert verl_loss(rows, policy, old).item() == pytest.approx(verl_loss(alone, policy, old).item(), rel=EXACT)
