"""Every loss, correction and divergence that is offered: values and gradients against the plain formulas in float64."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from functools import lru_cache
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.trainer.batch.advantage import credit
from services.trainer.batch.samples import Sample
from shared.config.actor import KlLossType
from shared.config.algorithm import RS_CALL, RS_TOKEN
from tests.contract.plain_loss import plain_loss
from tests.contract.verl_kit import Policies, Policy, gradients, learner_loss, make_settings, sampled_by
from tests.unit.trainer.trees import VOCABULARY, Call, Rollout, merged

pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore")]

CLOSE = 1e-6
"""Relative error of advantages and recorded log-probs, which are float32 in a batch."""
MODES = ("vanilla", "gspo", "cispo", "gpg", "dppo_tv", "dppo_kl", "dro")
CORRECTIONS: dict[str, dict[str, Any]] = {
    "none": {"rollout_is": "none"},
    "token": {},
    "token icepop": {"rollout_is_threshold": "0.5_2.5"},
    "token normalized": {"rollout_is_batch_normalize": True},
    "call": {"rollout_is": "sequence"},
    "call normalized": {"rollout_is": "sequence", "rollout_is_batch_normalize": True},
    "bypass": {"rollout_is": "none", "bypass_mode": True},
    **{t: {"rollout_rs": t, "rollout_rs_threshold": "0.5_3" if t.endswith("k1") else 0.6} for t in (*RS_TOKEN, *RS_CALL)},
    "two tests": {"rollout_is": "sequence", "rollout_rs": "token_k1,seq_mean_k3", "rollout_rs_threshold": "0.3_4,0.9"},
}  # fmt: skip
ALL_TERMS: dict[str, Any] = {
    "clip_ratio_low": 0.1, "clip_ratio_high": 0.4, "clip_ratio_c": 1.5, "entropy_coeff": 0.02, "use_kl_loss": True,
    "kl_loss_coef": 0.3,
}  # fmt: skip
"""Asymmetric clip, a low dual clip, entropy bonus and divergence."""


@lru_cache
def policies() -> Policies:
    """Close enough to each other that some tokens are clipped, or rejected, and others not."""
    old = Policy(1)
    return Policies(Policy(2, near=old), old, Policy(3, near=old), Policy(4, near=old))


def rollout(rng: random.Random) -> Rollout:
    calls: list[Call] = []
    for seq in range(1, rng.randint(2, 5)):
        parent = rng.choice([None, *calls])
        sampled = rng.randint(1, 5)
        new = tuple(rng.randrange(VOCABULARY) for _ in range(rng.randint(1, 3) + sampled))
        calls.append(Call(seq, parent, (*(parent.full if parent else ()), *new), sampled, seq != 2 or rng.random() < 0.7))
    return Rollout(rng.choice([0.0, 0.3, 1.0]) + 0.01 * rng.random(), calls)


@lru_cache
def made() -> list[list[Rollout]]:
    rng = random.Random(7)
    return [[rollout(rng) for _ in range(3)] for _ in range(3)]


def rows() -> list[Sample]:
    config = make_settings().algorithm
    samples = credit([[merged(r, random.Random(0)) for r in group] for group in made()], config)
    return sampled_by(policies().sampled, samples)


def assert_same(found: Any, wanted: Any, rel: float) -> None:
    assert found.item() == pytest.approx(wanted.item(), rel=rel, abs=rel)
    for ours, plain in zip(gradients(found, policies().new), gradients(wanted, policies().new), strict=True):
        assert (ours - plain).abs().max() <= rel * (1 + plain.abs().max())


@pytest.mark.parametrize("mode", MODES)
def test_loss_and_gradient_are_the_plain_formulas_by_default(mode: str) -> None:
    chosen = make_settings({}, {"policy_loss": {"loss_mode": mode}})
    assert_same(learner_loss(rows(), chosen, policies())[0], plain_loss(made(), chosen, policies()), CLOSE)


@pytest.mark.parametrize("correction", CORRECTIONS)
@pytest.mark.parametrize("mode", MODES)
def test_loss_and_gradient_are_the_plain_formulas_with_all_terms(mode: str, correction: str) -> None:
    chosen = make_settings({"rollout_correction": CORRECTIONS[correction]}, {**ALL_TERMS, "policy_loss": {"loss_mode": mode}})
    policy = policies()
    if chosen.algorithm.rollout_correction.bypass_mode:
        policy = replace(policy, old=policy.sampled)
    assert_same(learner_loss(rows(), chosen, policies())[0], plain_loss(made(), chosen, policy), CLOSE)


@pytest.mark.parametrize("kind", get_args(KlLossType))
def test_every_divergence_is_the_plain_formula(kind: str) -> None:
    chosen = make_settings({}, {"use_kl_loss": True, "kl_loss_coef": 0.5, "kl_loss_type": kind})
    assert_same(learner_loss(rows(), chosen, policies())[0], plain_loss(made(), chosen, policies()), CLOSE)


@pytest.mark.parametrize("mode", MODES)
def test_the_gradient_is_the_same_whatever_the_micro_batches_and_so_are_the_metrics(mode: str) -> None:
    chosen = make_settings({}, {**ALL_TERMS, "policy_loss": {"loss_mode": mode}})
    whole, (expected,) = learner_loss(rows(), chosen, policies())
    for budget in (1, 40, 90):
        loss, metrics = learner_loss(rows(), chosen, policies(), budget)
        assert len(metrics) > 1
        assert_same(loss, whole, 1e-12)
        for name in ("actor/pg_loss", "actor/kl_loss", "actor/entropy_loss", *(["actor/ppo_kl"] if mode != "gpg" else [])):
            assert sum(m[name].aggregate() for m in metrics) == pytest.approx(expected[name].aggregate(), abs=1e-7)


@pytest.mark.parametrize("size", [1, 2])
def test_optimizer_steps_share_a_batch_out_without_changing_a_weight(size: int) -> None:
    """The mean of the steps' losses is the loss of one step on everything."""
    one, several = (make_settings({}, {"ppo_mini_batch_size": s, "policy_loss": {"loss_mode": "gspo"}}) for s in (0, size))
    assert_same(learner_loss(rows(), several, policies(), budget=40)[0], learner_loss(rows(), one, policies())[0], 1e-12)


@settings(max_examples=20, deadline=None)
@given(st.sampled_from([math.nan, math.inf, -math.inf, 1e30, -1e30, 3.0]), st.sampled_from(MODES))
def test_what_is_said_of_untrained_tokens_changes_nothing(noise: float, mode: str) -> None:
    chosen = make_settings({}, {**ALL_TERMS, "policy_loss": {"loss_mode": mode}})
    spoiled = [replace(s, logprobs=[p if m else noise for p, m in zip(s.logprobs, s.mask, strict=True)]) for s in rows()]
    expected, _ = learner_loss(rows(), chosen, policies())
    loss, _ = learner_loss(spoiled, chosen, policies(), noise=noise)
    assert_same(loss, expected, 1e-15)


def test_rejected_tokens_count_in_no_mean() -> None:
    """As if they had never been trained; here, all of a call, so that its trajectory's other calls weigh more."""
    far = make_settings(
        {"rollout_correction": {"rollout_is": "none", "rollout_rs": "seq_sum_k1", "rollout_rs_threshold": "1e-9_1e9"}}
    )
    assert_same(
        learner_loss(rows(), far, policies())[0],
        learner_loss(rows(), make_settings({"rollout_correction": {"rollout_is": "none"}}), policies())[0],
        1e-12,
    )
    nothing = {"rollout_is": "none", "rollout_rs": "token_k2", "rollout_rs_threshold": 1e-12}
    loss, metrics = learner_loss(rows(), make_settings({"rollout_correction": nothing}), policies())
    assert (loss.item(), metrics) == (0.0, [])


@pytest.mark.parametrize(
    ("weighting", "theirs"),
    [("trajectory", "seq-mean-token-mean"), ("token-mean", "token-mean"), ("constant", "seq-mean-token-sum-norm")],
)
def test_with_one_row_a_trajectory_it_is_verls_own_loss(weighting: str, theirs: str) -> None:
    """All three terms, under veRL's own aggregation."""
    import torch
    from verl.utils import tensordict_utils as tu
    from verl.workers.utils.losses import ppo_loss

    from services.trainer.batch.batch import jagged, padded
    from services.trainer.learner.workers import actor_config

    one_row = [s for i, s in enumerate(rows()) if s.trajectory not in {r.trajectory for r in rows()[:i]}]
    actor = ALL_TERMS
    chosen = make_settings(
        {"loss_weighting": weighting, "loss_scale_factor": 16, "rollout_correction": {"rollout_is": "none"}}, actor
    )
    config = actor_config(chosen)
    object.__setattr__(config, "loss_agg_mode", theirs)
    object.__setattr__(config, "loss_scale_factor", 16)
    batch, policy = padded(one_row), policies()
    for name, of in (("old_log_probs", policy.old), ("ref_log_prob", policy.reference)):
        said = [of.log_probs(s.ids)[s.prompt_len - 1 :].detach() for s in one_row]
        batch[name] = torch.nn.utils.rnn.pad_sequence(said, batch_first=True)
    batch = jagged(batch)
    tu.assign_non_tensor(batch, dp_size=1, batch_num_tokens=sum(s.trained for s in one_row), global_batch_size=len(one_row))
    outputs = [policy.new.says(s.ids) for s in one_row]
    last = torch.zeros(1, dtype=torch.float64)
    output = {n: torch.cat([p for v in outputs for p in (v[i], last)]) for i, n in enumerate(("log_probs", "entropy"))}
    assert_same(learner_loss(one_row, chosen, policy)[0], ppo_loss(config, output, batch)[0], CLOSE)
