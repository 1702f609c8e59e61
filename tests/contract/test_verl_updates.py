"""Updates on veRL's real worker: ratios, weights, steps, schedules and the reference model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from safetensors.torch import load_file

from services.trainer.batch.advantage import credit
from services.trainer.batch.samples import Sample, Vote
from shared.errors import ForgeError
from tests.contract.learner_kit import (
    CONFIG,
    DISCOUNTED,
    EXACT,
    UNSCALED,
    MakeLearner,
    learner,
    learner_settings,
    merged,
    model,
    on_policy,
    unmerged,
    weights,
)

if TYPE_CHECKING:
    from services.trainer.learner import VerlLearner

__all__ = ["learner", "model"]

# Imports of torch and veRL warn; they happen inside fixtures and tests, where this applies.
pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore")]

RATIO_ONE = 1e-6
"""Rounding of fp32 log-probs between a pass for inference and one for training."""


def test_the_first_on_policy_step_has_ratio_one(learner: MakeLearner) -> None:
    agent = learner()
    update = agent.update(on_policy(agent, credit(merged(), CONFIG)))
    assert max(update.logprob_gaps) < EXACT
    assert update.metrics["actor/pg_clipfrac"] == update.metrics["actor/pg_clipfrac_lower"] == 0
    assert abs(update.metrics["actor/ppo_kl"]) < RATIO_ONE
    assert update.metrics["actor/grad_norm"] > 0
    assert update.metrics["rollout_corr/rollout_is_mean"] == pytest.approx(1, abs=EXACT)


@pytest.mark.parametrize("mode", ["gspo", "cispo", "dppo_tv", "dppo_kl", "gpg", "dro"])
def test_so_has_that_of_every_other_loss(learner: MakeLearner, mode: str) -> None:
    agent = learner(actor={"policy_loss": {"loss_mode": mode}})
    metrics = agent.update(on_policy(agent, credit(merged(), CONFIG))).metrics
    assert metrics.get("actor/pg_clipfrac", 0.0) == 0
    assert abs(metrics.get("actor/ppo_kl", 0.0)) < RATIO_ONE
    assert metrics["actor/grad_norm"] > 0


def test_an_update_has_verls_metrics(learner: MakeLearner) -> None:
    agent = learner(actor={"use_kl_loss": True, "entropy_coeff": 0.01})
    metrics = agent.update(on_policy(agent, credit(merged(), CONFIG))).metrics
    parts = (
        "pg_loss",
        "pg_clipfrac",
        "pg_clipfrac_lower",
        "ppo_kl",
        "entropy",
        "entropy_loss",
        "kl_loss",
        "kl_coef",
        "loss",
        "grad_norm",
        "lr",
    )
    assert {f"actor/{part}" for part in parts} <= metrics.keys()
    corrected = (
        "kl",
        "k3_kl",
        "training_ppl",
        "rollout_ppl",
        "ppl_ratio",
        "chi2_token",
        "rollout_is_max",
        "rollout_is_eff_sample_size",
    )
    assert {f"rollout_corr/{part}" for part in corrected} <= metrics.keys()
    assert {"perf/mfu/actor", "tokens_rejected"} <= metrics.keys()
    assert metrics["actor/kl_loss"] == pytest.approx(0, abs=1e-9)  # the model is still the one that it began as
    assert 0 < metrics["actor/entropy"] <= math.log(512)
    assert metrics["actor/entropy_loss"] == pytest.approx(metrics["actor/entropy"], rel=0.1)  # another mean of the same values


def test_the_divergence_is_from_the_model_that_rl_began_with_after_a_resume_too(learner: MakeLearner, tmp_path: Path) -> None:
    kl = {"use_kl_loss": True, "kl_loss_type": "k2", "kl_loss_coef": 10.0}
    agent, free = learner(actor=kl, optim={"lr": 1e-2}), learner(optim={"lr": 1e-2})
    samples = credit(merged(), CONFIG)
    found = [agent.update(samples).metrics["actor/kl_loss"] for _ in range(4)]
    assert found[0] == 0 < found[1]
    for _ in range(4):
        free.update(samples)
    begun = learner()
    moved = [gap(begun, moved, samples) for moved in (agent, free)]
    assert moved[0] < moved[1]  # held back
    agent.save_checkpoint(tmp_path / "c", 4)
    again = learner(actor=kl, optim={"lr": 1e-2})
    again.load_checkpoint(tmp_path / "c")
    assert again.update(samples).metrics["actor/kl_loss"] == pytest.approx(
        agent.update(samples).metrics["actor/kl_loss"], rel=1e-6
    )


def gap(one: VerlLearner, other: VerlLearner, samples: Sequence[Sample]) -> float:
    """Mean absolute difference of log-probs."""
    rows = [agent.log_probs([s.ids for s in samples]) for agent in (one, other)]
    gaps: list[float] = [abs(p - q) for a, b in zip(*rows, strict=True) for p, q in zip(a, b, strict=True)]
    return sum(gaps) / len(gaps)


def test_the_weights_move_the_same_way_whatever_the_token_budget(learner: MakeLearner, tmp_path: Path) -> None:
    actor = {"grad_clip": 1e9, "policy_loss": {"loss_mode": "gspo"}, "entropy_coeff": 0.01, "use_kl_loss": True}
    moved = []
    for budget in (20, 33, 1000):  # three micro-batches, two, one
        agent = learner(optim={"optimizer": "SGD", "lr": 1.0}, actor={**actor, "ppo_max_token_len_per_gpu": budget})
        begun = weights(agent, tmp_path / "begun")
        agent.update(credit(unmerged(), CONFIG))
        after = weights(agent, tmp_path / "after")
        moved.append({name: after[name] - begun[name] for name in begun})
    for other in moved[:2]:
        for name, wanted in moved[2].items():
            assert (other[name] - wanted).abs().max() <= 1e-5 * wanted.abs().max() + 1e-7


def test_a_batch_becomes_several_optimizer_steps_of_whole_groups(learner: MakeLearner) -> None:
    groups = [*merged(), *unmerged(), *merged()]
    agent = learner(actor={"ppo_mini_batch_size": 2, "ppo_epochs": 2}, optim={"lr": 1e-2})
    seen: list[list[int]] = []
    worker: Any = agent._worker
    train = worker.train_batch

    def watch(batch: Any) -> Any:
        seen.append(batch["calls"].amax(-1).tolist())
        return train(batch)

    worker.train_batch = watch
    metrics = agent.update(credit(groups, CONFIG)).metrics
    assert [len(rows) for rows in seen] == [5, 2, 5, 2]
    assert seen[:2] == seen[2:]
    assert metrics["actor/ppo_kl"] != 0  # the second step no longer is on-policy
    assert metrics["actor/lr"] == pytest.approx(1e-2)


def test_a_schedule_moves_on_once_an_update(model: Path) -> None:
    from services.trainer.learner import VerlLearner

    optim = {"lr": 1e-3, "lr_scheduler_type": "cosine", "lr_warmup_steps": 2, "min_lr_ratio": 0.1}
    agent = VerlLearner(model, replace(learner_settings({"optim": optim, "actor": {"ppo_epochs": 3}}), steps=6))
    rates = [agent.update(credit(merged(), CONFIG)).metrics["actor/lr"] for _ in range(6)]  # each is the next one's
    assert rates == pytest.approx([0.5e-3, 1e-3, 0.868e-3, 0.55e-3, 0.232e-3, 0.1e-3], rel=1e-3)


def test_a_row_beyond_the_budget_is_refused_with_what_to_set(learner: MakeLearner) -> None:
    agent = learner(actor={"ppo_max_token_len_per_gpu": 19})
    with pytest.raises(ForgeError, match=r"a row of 20 tokens .*ppo_max_token_len_per_gpu = 19; set that to 20 or more"):
        agent.update(credit(merged(), CONFIG))


def test_a_batch_that_is_rejected_whole_changes_nothing(learner: MakeLearner) -> None:
    reject = {"rollout_correction": {"rollout_rs": "token_k2", "rollout_rs_threshold": 1e-9}}
    agent, samples = learner(algorithm=reject), credit(merged(), CONFIG)
    before = agent.log_probs([s.ids for s in samples])
    assert agent.update(samples).metrics["tokens_rejected"] == 15
    assert agent.log_probs([s.ids for s in samples]) == before


def test_calls_merged_into_rows_learn_what_separate_calls_learn(learner: MakeLearner, tmp_path: Path) -> None:
    # Plain gradient descent with a rate of 1: the weights move by the gradient itself.
    plain = {"rollout_correction": {"rollout_is": "none"}}
    settings = {"optim": {"optimizer": "SGD", "lr": 1.0}, "actor": {"grad_clip": 1e9}, "algorithm": plain}
    begin, one, other = learner(), learner(**settings), learner(**settings)
    a, b = one.update(credit(merged(), DISCOUNTED)), other.update(credit(unmerged(), DISCOUNTED))
    assert a.metrics["actor/pg_loss"] == pytest.approx(b.metrics["actor/pg_loss"], abs=1e-6)
    assert a.metrics["actor/grad_norm"] == pytest.approx(b.metrics["actor/grad_norm"], rel=1e-5)
    for agent, name in ((begin, "begin"), (one, "one"), (other, "other")):
        agent.export(tmp_path / name)
    before, after, after_other = (load_file(tmp_path / name) for name in ("begin", "one", "other"))
    largest = max((after[n] - w).abs().max().item() for n, w in before.items())
    differs = max((after[n] - after_other[n]).abs().max().item() for n in before)
    assert largest > 1e-2
    assert differs < 1e-5 * largest + 1e-6


def test_the_loss_is_a_mean_over_trajectories(learner: MakeLearner) -> None:
    agent, (group,) = learner(), merged()
    balanced = on_policy(agent, credit([group], UNSCALED))  # advantages +1/2 and -1/2; at ratio 1 the loss is their mean
    assert agent.update(balanced).metrics["actor/pg_loss"] == pytest.approx(0.0, abs=1e-6)
    one_trains = on_policy(agent, credit([[Vote(3.0, group[0].samples), Vote(1.0, [])]], UNSCALED))
    assert agent.update(one_trains).metrics["actor/pg_loss"] == pytest.approx(-1.0, abs=1e-5)


def test_a_token_weighs_by_how_much_likelier_it_has_become_up_to_the_threshold(learner: MakeLearner) -> None:
    (group,) = merged()
    made = credit([[Vote(3.0, group[0].samples), Vote(1.0, [])]], UNSCALED)  # on-policy, the loss is -1
    corrected, plain = learner(), learner(algorithm={"rollout_correction": {"rollout_is": "none"}})
    for agent, factor, weight in ((corrected, 1.5, 1.5), (corrected, 4.0, 2.0), (plain, 4.0, 1.0)):
        samples = [replace(s, logprobs=[p - math.log(factor) for p in s.logprobs]) for s in on_policy(agent, made)]
        update = agent.update(samples)
        assert update.metrics["actor/pg_loss"] == pytest.approx(-weight, abs=1e-4)
        assert update.logprob_gaps == pytest.approx([math.log(factor)], abs=1e-4)


def test_the_policy_at_a_temperature_is_trained(learner: MakeLearner) -> None:
    import torch

    cold, warm = learner(temperature=0.5), learner()
    worker: Any = warm._worker
    with torch.no_grad():  # a model with logits twice as large
        norm = worker.engine.module.model.norm.weight
        norm.mul_(2.0)
    samples = on_policy(warm, credit(merged(), CONFIG))
    assert max(cold.update(samples).logprob_gaps) < EXACT


def test_a_gradient_is_scaled_down_to_the_norm_that_is_allowed(learner: MakeLearner, tmp_path: Path) -> None:
    agent = learner(optim={"optimizer": "SGD", "lr": 1.0}, actor={"grad_clip": 1e-2})
    begun = weights(agent, tmp_path / "begun")
    metrics = agent.update(credit(merged(), CONFIG)).metrics
    after = weights(agent, tmp_path / "after")
    begun.pop("lm_head.weight")  # the embedding under another name
    moved = math.sqrt(sum(float((after[name] - w).square().sum()) for name, w in begun.items()))
    assert metrics["actor/grad_norm"] > 1e-2
    assert moved == pytest.approx(1e-2, rel=1e-3)
