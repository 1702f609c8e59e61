"""What this project relies on in veRL 0.9.1, whose engine interface is "subject to change"."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from safetensors.torch import load_file

from services.trainer.advantage import baselines, call_advantages, weigh
from services.trainer.ports import LearnerSettings
from services.trainer.samples import Sample, Vote
from shared.config import AlgorithmConfig
from shared.events import Span

if TYPE_CHECKING:
    from services.trainer.learner import VerlLearner

# Imports of torch and veRL warn; they happen inside fixtures and tests, where this applies.
pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore")]

MakeLearner = Callable[..., "VerlLearner"]
EXACT = 1e-5
"""Nats that fp32 log-probs of two implementations may differ by."""
CONFIG, UNSCALED, DISCOUNTED = AlgorithmConfig(), AlgorithmConfig(norm_adv_by_std_in_grpo=False), AlgorithmConfig(gamma=0.9)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.engine.tied_model import make_tied_model

    return make_tied_model(tmp_path_factory.mktemp("tied"))


@pytest.fixture
def learner(model: Path) -> MakeLearner:
    from services.trainer.learner import VerlLearner

    return lambda folder=model, **settings: VerlLearner(folder, learner_settings(settings))


def learner_settings(changed: Mapping[str, Any]) -> LearnerSettings:
    return msgspec.convert({**changed, "optim": {"lr": 1e-3, **changed.get("optim", {})}}, LearnerSettings)


def ids(length: int, seed: int) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange(256) for _ in range(length)]


def span(seq: int, start: int, end: int, after: int = 0) -> Span:
    return Span(seq=seq, start=start, end=end, after=after)


def on_policy(learner: VerlLearner, samples: Sequence[Sample]) -> list[Sample]:
    """Samples whose log-probs are the learner's own."""
    rows = learner.log_probs([s.ids for s in samples])
    return [replace(s, logprobs=row[s.prompt_len - 1 :]) for s, row in zip(samples, rows, strict=True)]


def merged() -> list[list[Vote]]:
    """A group of two trajectories; the first is one row of two calls, 5 and 4 tokens, with 3 tokens of a tool between them."""
    two_calls = Sample(ids(20, 1), 8, [1] * 5 + [0] * 3 + [1] * 4, [-1.0] * 12, [span(1, 8, 13, 1), span(2, 16, 20)])
    one_call = Sample(ids(12, 2), 6, [1] * 6, [-1.0] * 6, [span(1, 6, 12)])
    return [[Vote(1.0, [two_calls]), Vote(0.0, [one_call])]]


def unmerged() -> list[list[Vote]]:
    """The same group with one row per call."""
    ((first, second),) = merged()
    whole = first.samples[0].ids
    calls = [
        Sample(whole[:13], 8, [1] * 5, [-1.0] * 5, [span(1, 8, 13, 1)]),
        Sample(whole, 16, [1] * 4, [-1.0] * 4, [span(2, 16, 20)]),
    ]
    return [[Vote(1.0, calls), second]]


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
    from services.trainer.batch import padded

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


def test_the_first_on_policy_step_has_ratio_one(learner: MakeLearner) -> None:
    agent = learner()
    update = agent.update(on_policy(agent, weigh(merged(), CONFIG)))
    assert max(update.logprob_gaps) < EXACT
    assert update.metrics["actor/pg_clipfrac"] == 0
    assert abs(update.metrics["actor/ppo_kl"]) < EXACT
    assert update.metrics["actor/grad_norm"] > 0
    assert {"actor/pg_loss", "actor/lr"} <= update.metrics.keys()


def test_calls_merged_into_rows_learn_what_separate_calls_learn(learner: MakeLearner, tmp_path: Path) -> None:
    # Plain gradient descent with a rate of 1: the weights move by the gradient itself.
    plain = {"rollout_correction": {"rollout_is": "none"}}
    settings = {"optim": {"optimizer": "SGD", "lr": 1.0}, "actor": {"grad_clip": 1e9}, "algorithm": plain}
    begin, one, other = learner(), learner(**settings), learner(**settings)
    a, b = one.update(weigh(merged(), DISCOUNTED)), other.update(weigh(unmerged(), DISCOUNTED))
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
    balanced = on_policy(agent, weigh([group], UNSCALED))  # advantages +1/2 and -1/2; at ratio 1 the loss is their mean
    assert agent.update(balanced).metrics["actor/pg_loss"] == pytest.approx(0.0, abs=1e-6)
    one_trains = on_policy(agent, weigh([[Vote(3.0, group[0].samples), Vote(1.0, [])]], UNSCALED))
    assert agent.update(one_trains).metrics["actor/pg_loss"] == pytest.approx(-1.0, abs=1e-5)


def test_a_token_weighs_by_how_much_likelier_it_has_become_up_to_the_threshold(learner: MakeLearner) -> None:
    (group,) = merged()
    made = weigh([[Vote(3.0, group[0].samples), Vote(1.0, [])]], UNSCALED)  # on-policy, the loss is -1
    corrected, plain = learner(), learner(algorithm={"rollout_correction": {"rollout_is": "none"}})
    for agent, factor, weight in ((corrected, 1.5, 1.5), (corrected, 4.0, 2.0), (plain, 4.0, 1.0)):
        samples = [replace(s, logprobs=[p - math.log(factor) for p in s.logprobs]) for s in on_policy(agent, made)]
        update = agent.update(samples)
        assert update.metrics["actor/pg_loss"] == pytest.approx(-weight, abs=1e-4)
        assert update.logprob_gaps == pytest.approx([math.log(factor)], abs=1e-4)


def test_advantages_of_a_group_are_verls() -> None:
    import numpy as np
    import torch
    from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage, compute_rloo_outcome_advantage

    rewards = [0.0, 1.0, 1.0, 0.25]
    index = np.array(["g"] * 4, dtype=object)
    for config, verls in (
        (CONFIG, partial(compute_grpo_outcome_advantage, norm_adv_by_std_in_grpo=True)),
        (UNSCALED, partial(compute_grpo_outcome_advantage, norm_adv_by_std_in_grpo=False)),
        (AlgorithmConfig(adv_estimator="rloo"), compute_rloo_outcome_advantage),
    ):
        scores = torch.tensor(rewards).unsqueeze(-1)
        theirs, _ = verls(token_level_rewards=scores, response_mask=torch.ones(4, 1), index=index)
        compared = zip(rewards, baselines(rewards, config), strict=True)
        ours = [a for r, b in compared for a in call_advantages(r, [span(1, 0, 1)], b, config.gamma)]
        assert ours == pytest.approx(theirs[:, 0].tolist(), abs=1e-6)


def test_two_learners_follow_each_other_in_one_process(learner: MakeLearner, tmp_path: Path) -> None:
    first = learner(optim={"optimizer_impl": "services.trainer.muon", "optimizer": "MuonAdamW", "betas": (0.9, 0.98)})
    rows = [Sample(ids(16, seed), 1, [1] * 15, [0.0] * 15) for seed in range(4)]
    losses = [first.sft_step(rows, 3e-3) for _ in range(8)]
    assert losses[-1] < losses[0] - 0.5
    first.save_model(tmp_path / "warm")
    second = learner(tmp_path / "warm")
    sequences = [s.ids for s in rows]
    assert second.log_probs(sequences) == first.log_probs(sequences)
    assert max(second.update(on_policy(second, weigh(merged(), CONFIG))).logprob_gaps) < EXACT


def test_a_checkpoint_brings_weights_and_optimizer_back(learner: MakeLearner, tmp_path: Path) -> None:
    agent, samples, probe = learner(), weigh(merged(), CONFIG), [ids(9, 5)]
    agent.update(samples)
    agent.save_checkpoint(tmp_path / "global_step_1" / "actor", 1)
    agent.update(samples)
    expected = agent.log_probs(probe)
    other = learner()
    other.load_checkpoint(tmp_path / "global_step_1" / "actor")
    assert other.log_probs(probe) != expected
    other.update(samples)
    assert other.log_probs(probe) == expected


def test_weights_are_written_for_the_engine_and_for_transformers(learner: MakeLearner, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    agent = learner()
    agent.update(weigh(merged(), CONFIG))
    agent.export(tmp_path / "push.safetensors")
    agent.save_model(tmp_path / "final")
    pushed, saved = load_file(tmp_path / "push.safetensors"), load_file(tmp_path / "final" / "model.safetensors")
    assert pushed.keys() - saved.keys() == {"lm_head.weight"}
    assert pushed["lm_head.weight"].equal(pushed["model.embed_tokens.weight"])
    assert all(saved[name].equal(pushed[name]) for name in saved)
    loaded: Any = AutoModelForCausalLM.from_pretrained(tmp_path / "final")
    assert loaded.model.embed_tokens.weight.equal(saved["model.embed_tokens.weight"])
    assert AutoTokenizer.from_pretrained(tmp_path / "final").eos_token == "<|im_end|>"


def test_the_policy_at_a_temperature_is_trained(learner: MakeLearner) -> None:
    import torch

    cold, warm = learner(temperature=0.5), learner()
    with torch.no_grad():  # a model with logits twice as large
        norm = warm._worker.engine.module.model.norm.weight
        norm.mul_(2.0)
    samples = on_policy(warm, weigh(merged(), CONFIG))
    assert max(cold.update(samples).logprob_gaps) < EXACT
