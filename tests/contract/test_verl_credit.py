"""Credit and weights through veRL's own loss: merged rows learn what separate calls learn, and what the formula says."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from services.collector.assemble import assemble
from services.trainer.batch.advantage import credit
from services.trainer.batch.samples import Sample, Vote, read_vote
from shared.config import AlgorithmConfig
from shared.events import Span
from tests.contract.plain_loss import plain_loss, plain_share
from tests.contract.verl_kit import Policies, Policy, gradients, learner_loss, make_settings, sampled_by
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
    adv_estimator=st.sampled_from(["grpo", "rloo", "reinforce_plus_plus_baseline"]),
    norm_adv_by_std_in_grpo=st.booleans(),
    gamma=st.sampled_from([1.0, 0.9]),
    loss_weighting=st.sampled_from(["trajectory", "token-mean", "constant"]),
    loss_scale_factor=st.just(16),
)
examples = settings(max_examples=25, deadline=None)


def batch_of(made: Iterable[Iterable[Rollout]], rows: Callable[[Rollout], Any], config: AlgorithmConfig) -> list[Sample]:
    return credit([[rows(r) for r in group] for group in made], config)


def separate(vote: Vote) -> Vote:
    """A trajectory with a row for each of its calls."""
    calls = [(s, span) for s in vote.samples for span in s.spans]
    return Vote(vote.reward, [single_call(s, span) for s, span in calls])


def single_call(row: Sample, call: Span) -> Sample:
    size = call.end - call.start
    return Sample(row.ids[: call.end], call.start, [1] * size, [-1.0] * size, [call])


def assert_same_learning(rows: Sequence[Sample], other: Sequence[Sample], config: AlgorithmConfig) -> None:
    """Loss and gradient are the same, away from the sampling weights as well, with one ratio a token and with one a call."""
    policies, actor = Policies(), {"use_kl_loss": True, "kl_loss_coef": 0.1, "entropy_coeff": 0.1}
    for mode in ("vanilla", "gspo"):
        settings = make_settings(msgspec.to_builtins(config), {**actor, "policy_loss": {"loss_mode": mode}})
        loss, expected = (learner_loss(sampled_by(policies.sampled, batch), settings, policies)[0] for batch in (rows, other))
        assert loss.item() == pytest.approx(expected.item(), rel=EXACT, abs=EXACT)
        for found, wanted in zip(gradients(loss, policies.new), gradients(expected, policies.new), strict=True):
            assert (found - wanted).abs().max() <= EXACT * (1 + wanted.abs().max())


@examples
@given(trees, configs, lots)
def test_merged_rows_have_the_loss_and_the_gradient_of_separate_calls(
    made: list[list[Rollout]], config: AlgorithmConfig, owners: random.Random
) -> None:
    alone = batch_of(made, unmerged, config)
    for _ in range(2):  # the second time, other rows train the shared calls
        assert_same_learning(batch_of(made, lambda r: merged(r, owners), config), alone, config)


@examples
@given(st.lists(sessions(), min_size=2, max_size=3), configs)
def test_so_have_the_rows_that_the_collector_makes(made: list[Session], config: AlgorithmConfig) -> None:
    """Rollouts with retries, rewritten histories, helpers and replies that were cut off."""
    rows = [assemble(s.records, s.sealed(), max_row_tokens=1000).rows for s in made]
    assume(any(rows))
    votes = [read_vote(trajectory("r", i * i, made=r)) if r else Vote(i * i, []) for i, r in enumerate(rows)]
    one, alone = credit([votes], config), credit([[separate(v) for v in votes]], config)
    assert_same_learning(one, alone, config)


@examples
@given(trees, configs, lots)
def test_the_learners_loss_is_the_documented_formula(
    made: list[list[Rollout]], config: AlgorithmConfig, owners: random.Random
) -> None:
    policies, settings = Policies(), make_settings(msgspec.to_builtins(config))
    expected = plain_loss(made, settings, policies).item()
    rows = sampled_by(policies.sampled, batch_of(made, lambda r: merged(r, owners), config))
    assert learner_loss(rows, settings, policies)[0].item() == pytest.approx(expected, rel=SINGLE, abs=SINGLE)


@examples
@given(trees, configs, lots)
def test_on_policy_the_ratio_is_one(made: list[list[Rollout]], config: AlgorithmConfig, owners: random.Random) -> None:
    """The loss is then minus the weighted advantages, with one ratio a token and with one a call, and nothing is clipped."""
    policy = Policy(0)
    policies = Policies(policy, policy, policy, policy)
    rows = sampled_by(policy, batch_of(made, lambda r: merged(r, owners), config))
    expected = -sum(
        plain_share(r.trained, trained(made), config) * a * (span.end - span.start)
        for s in rows
        for r in [[r for group in made for r in group][s.trajectory]]
        for span, a in zip(s.spans, s.advantages, strict=True)
    )
    for mode in ("vanilla", "gspo"):
        settings = make_settings(msgspec.to_builtins(config), {"policy_loss": {"loss_mode": mode}})
        loss, (metrics,) = learner_loss(rows, settings, policies)
        assert loss.item() == pytest.approx(expected, rel=SINGLE, abs=SINGLE)
        assert metrics["actor/pg_clipfrac"].aggregate() == 0
        assert metrics["actor/ppo_kl"].aggregate() == pytest.approx(0, abs=SINGLE)


def trained(made: Sequence[Sequence[Rollout]]) -> list[int]:
    return [r.trained for group in made for r in group]


def test_a_ratio_of_a_whole_row_would_depend_on_how_calls_are_merged() -> None:
    """What the identities above would look like if they did not hold: GSPO with a row as its sequence, as veRL has it."""
    root = Call(1, None, (1, 2, 3), 2, True)
    calls = [root, Call(2, root, (1, 2, 3, 4, 5, 6, 7), 3, True), Call(3, None, (8, 9), 1, True)]
    made = [[Rollout(1.0, calls), Rollout(0.0, [Call(1, None, (5, 6, 7), 2, True)])]]
    policies, config = Policies(), AlgorithmConfig()
    rows = batch_of(made, lambda r: merged(r, random.Random(0)), config)
    alone = batch_of(made, unmerged, config)
    settings = make_settings({}, {"policy_loss": {"loss_mode": "gspo"}})
    one, other = (learner_loss(sampled_by(policies.sampled, b), settings, policies)[0].item() for b in (rows, alone))
    assert one == pytest.approx(other, rel=EXACT)
    by_row = learner_loss(sampled_by(policies.sampled, [as_one_call(s) for s in rows]), settings, policies)[0].item()
    assert abs(by_row - one) > 0.01


def as_one_call(row: Sample) -> Sample:
    """A row whose calls pass for one."""
    whole = Span(seq=1, start=row.prompt_len, end=len(row.ids), after=0)
    return replace(row, spans=[whole], advantages=row.advantages[:1])
