"""What this project relies on in veRL 0.9.1, whose engine interface is "subject to change"."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from safetensors.torch import load_file

from services.trainer.batch.advantage import credit
from services.trainer.batch.samples import Sample, Vote
from shared.config import AlgorithmConfig
from tests.contract.learner_kit import (
    CONFIG,
    EXACT,
    MakeLearner,
    ids,
    learner,
    learner_settings,
    merged,
    model,
    on_policy,
    span,
    unmerged,
    weights,
)

if TYPE_CHECKING:
    pass

__all__ = ["learner", "model"]

# Imports of torch and veRL warn; they happen inside fixtures and tests, where this applies.
pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore")]


def test_log_probs_are_those_of_transformers(model: Path, learner: MakeLearner) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    plain = AutoModelForCausalLM.from_pretrained(model)
    sequences = [ids(n, n) for n in (2, 9, 30)]
    for sequence, ours in zip(sequences, learner().log_probs(sequences), strict=True):
        hidden = plain.model(torch.tensor([sequence]))[0]
        theirs = plain.lm_head(hidden)[0].log_softmax(-1)
        expected = [theirs[i, token].item() for i, token in enumerate(sequence[1:])]
        assert ours == pytest.approx(expected, abs=EXACT)


def test_a_batch_has_verls_fields_padded_left_and_right() -> None:
    from services.trainer.batch.batch import padded

    first = Sample([1, 2, 3], 2, [1], [-0.5], [span(1, 2, 3)], [2.0])
    second = Sample([4, 5, 6, 7], 1, [1, 0, 1], [-1.0, -9.0, -2.0], [span(1, 1, 2, 1), span(2, 3, 4)], [-0.5, -1.0])
    batch = padded([first, second])
    assert batch["prompts"].tolist() == [[1, 2], [0, 4]]
    assert batch["responses"].tolist() == [[3, 0, 0], [5, 6, 7]]
    assert batch["input_ids"].tolist() == [[1, 2, 3, 0, 0], [0, 4, 5, 6, 7]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 0, 0], [0, 1, 1, 1, 1]]
    assert batch["position_ids"].tolist() == [[0, 1, 2, 2, 2], [0, 0, 1, 2, 3]]
    assert batch["response_mask"].tolist() == [[1, 0, 0], [1, 0, 1]]
    assert batch["rollout_log_probs"].tolist() == [[-0.5, 0, 0], [-1.0, 0, -2.0]]
    assert batch["advantages"].tolist() == [[2.0, 0, 0], [-0.5, 0, -1.0]]
    assert batch["calls"].tolist() == [[1, 0, 0], [2, 0, 3]]


@pytest.mark.parametrize(
    ("chosen", "name", "options"),
    [
        ({}, "grpo", {"norm_adv_by_std_in_grpo": True}),
        ({"norm_adv_by_std_in_grpo": False}, "grpo", {"norm_adv_by_std_in_grpo": False}),
        ({"adv_estimator": "rloo"}, "rloo", {}),
        ({"adv_estimator": "reinforce_plus_plus_baseline"}, "reinforce_plus_plus_baseline", {}),
    ],
)
def test_advantages_of_one_row_a_trajectory_are_verls(chosen: dict[str, Any], name: str, options: dict[str, Any]) -> None:
    import numpy as np
    import torch
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn

    rewards, sizes = [[0.0, 1.0, 1.0, 0.25], [2.0, 0.5, 0.0]], iter([1, 4, 2, 5, 3, 2, 6])
    made = [[Vote(r, [one_call(size)]) for r, size in zip(group, sizes, strict=False)] for group in rewards]
    samples = credit(made, AlgorithmConfig(**chosen))
    mask = torch.nn.utils.rnn.pad_sequence([torch.ones(len(s.mask)) for s in samples], batch_first=True)
    scores = torch.zeros_like(mask)
    scores[:, 0] = torch.tensor([r for group in rewards for r in group])
    index = np.array([s.group for s in samples])
    theirs, _ = get_adv_estimator_fn(name)(token_level_rewards=scores, response_mask=mask, index=index, **options)
    ours = [[s.advantages[0]] * len(s.mask) for s in samples]
    for row, wanted in zip(ours, theirs.tolist(), strict=True):
        assert row == pytest.approx(wanted[: len(row)], abs=1e-5)


def one_call(size: int) -> Sample:
    return Sample(ids(size + 2, size), 2, [1] * size, [-1.0] * size, [span(1, 2, size + 2)])


def test_two_learners_follow_each_other_in_one_process(learner: MakeLearner, tmp_path: Path) -> None:
    first = learner(optim={"optimizer_impl": "services.trainer.verl.muon", "optimizer": "MuonAdamW", "betas": (0.9, 0.98)})
    rows = [Sample(ids(16, seed), 1, [1] * 15, [0.0] * 15) for seed in range(4)]
    losses = [first.sft_step(rows, 3e-3) for _ in range(8)]
    assert losses[-1] < losses[0] - 0.5
    first.save_model(tmp_path / "warm")
    second = learner(tmp_path / "warm")
    sequences = [s.ids for s in rows]
    assert second.log_probs(sequences) == first.log_probs(sequences)
    assert max(second.update(on_policy(second, credit(merged(), CONFIG))).logprob_gaps) < EXACT


def test_after_a_checkpoint_the_next_updates_are_those_of_an_undisturbed_learner(model: Path, tmp_path: Path) -> None:
    import torch

    from services.trainer.learner import VerlLearner

    optim = {"lr": 1e-3, "lr_scheduler_type": "cosine", "weight_decay": 0.1}
    actor = {"use_kl_loss": True, "ppo_mini_batch_size": 1}
    chosen = replace(learner_settings({"optim": optim, "actor": actor}), steps=5)
    agent, samples = VerlLearner(model, chosen), credit([*merged(), *unmerged()], CONFIG)
    agent.update(samples)
    agent.save_checkpoint(tmp_path / "global_step_1" / "actor", 1)
    drawn = torch.rand(3)
    rates = [agent.update(samples).metrics["actor/lr"] for _ in range(2)]
    expected = weights(agent, tmp_path / "expected")
    other = VerlLearner(model, replace(chosen, seed=5))
    other.load_checkpoint(tmp_path / "global_step_1" / "actor")
    assert torch.rand(3).equal(drawn)
    assert [other.update(samples).metrics["actor/lr"] for _ in range(2)] == rates
    found = weights(other, tmp_path / "found")
    assert max((found[name] - w).abs().max().item() for name, w in expected.items()) <= 1e-6


def test_weights_are_written_for_the_engine_and_for_transformers(learner: MakeLearner, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    agent = learner()
    agent.update(credit(merged(), CONFIG))
    agent.export(tmp_path / "push.safetensors")
    agent.save_model(tmp_path / "final")
    pushed, saved = load_file(tmp_path / "push.safetensors"), load_file(tmp_path / "final" / "model.safetensors")
    assert pushed.keys() - saved.keys() == {"lm_head.weight"}
    assert pushed["lm_head.weight"].equal(pushed["model.embed_tokens.weight"])
    assert all(saved[name].equal(pushed[name]) for name in saved)
    loaded: Any = AutoModelForCausalLM.from_pretrained(tmp_path / "final")
    assert loaded.model.embed_tokens.weight.equal(saved["model.embed_tokens.weight"])
    assert AutoTokenizer.from_pretrained(tmp_path / "final").eos_token == "<|im_end|>"
