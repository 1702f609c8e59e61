"""Adapters beside a model learn, alone; with them added to its weights it is the same model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from safetensors.torch import load_file

from services.trainer.ports import LearnerSettings, Part
from services.trainer.weights.pushing import largest_gap
from shared.config import ActorConfig, LoraConfig, OptimConfig, ParallelConfig
from tests.contract.learner_kit import EXACT, model
from tests.contract.test_ranks_contract import samples

if TYPE_CHECKING:
    from services.trainer.learner import VerlLearner

__all__ = ["model"]

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore")]

RANK, ALPHA = 4, 32
PARTS: tuple[Part, ...] = ("whole", "base", "adapters")
PROBE = [s.ids for s in samples(3, 9)]


def make(model: Path, ranks: int = 1, rank: int = RANK) -> VerlLearner:
    from services.trainer.learner import VerlLearner

    lora = LoraConfig(lora_rank=rank, lora_alpha=ALPHA, target_modules=("q_proj", "v_proj", "down_proj"))
    settings = LearnerSettings(
        lora=lora, optim=OptimConfig(lr=1e-2), actor=ActorConfig(use_kl_loss=True), parallel=ParallelConfig(ranks=ranks)
    )
    return VerlLearner(model, settings)


def exported(learner: VerlLearner, file: Path) -> dict[str, torch.Tensor]:
    """Its adapters."""
    learner.export(file, "adapters")
    found: dict[str, torch.Tensor] = load_file(file)
    return found


def test_only_adapters_learn_and_merged_they_are_the_same_model(model: Path, tmp_path: Path) -> None:
    learner = make(model)
    first, second = (learner.update(samples(4, seed)).metrics for seed in (1, 2))
    assert first["actor/kl_loss"] == 0 < second["actor/kl_loss"]  # the reference is the model without them
    learner.save_model(tmp_path / "merged")
    ours = learner.log_probs(PROBE)
    assert largest_gap(ours, make(tmp_path / "merged", rank=0).log_probs(PROBE)) < EXACT
    assert largest_gap(ours, make(model, rank=0).log_probs(PROBE)) > 100 * EXACT
    assert learner.log_probs(PROBE) == ours  # merging left the weights as they were
    base, merged = load_file(model / "model.safetensors"), load_file(tmp_path / "merged" / "model.safetensors")
    adapter = load_file(tmp_path / "merged" / "adapter" / "adapter_model.safetensors")
    assert base.keys() == merged.keys()
    for name, weight in base.items():
        stem = "base_model.model." + name.removesuffix(".weight")
        parts = [adapter.get(f"{stem}.lora_{letter}.weight") for letter in "BA"]
        if parts[0] is None or parts[1] is None:
            assert torch.equal(weight, merged[name]), name
        else:
            delta = (parts[0].double() @ parts[1].double()) * ALPHA / RANK
            assert (merged[name] - (weight + delta)).abs().max() < 1e-6, name
            assert delta.abs().max() > 1e-4, name


def test_base_and_adapters_apart_make_the_whole(model: Path, tmp_path: Path) -> None:
    from services.trainer.vllm.adapted import adapted

    learner, parts = make(model), {}
    learner.update(samples(4, 1))
    for part in PARTS:
        learner.export(tmp_path / part, part)
        parts[part] = load_file(tmp_path / part)
    assert all(torch.equal(parts["base"][name], weight) for name, weight in load_file(model / "model.safetensors").items())
    found = dict(adapted(tmp_path / "base", parts["adapters"]))
    assert found.keys() == parts["whole"].keys()
    assert max(float((found[name] - weight).abs().max()) for name, weight in parts["whole"].items()) < 1e-6
    assert max(float((parts["base"][name] - weight).abs().max()) for name, weight in parts["whole"].items()) > 1e-4


def test_a_checkpoint_has_the_adapters_and_goes_on_exactly(model: Path, tmp_path: Path) -> None:
    whole, half = make(model), make(model)
    for seed in (1, 2):
        whole.update(samples(4, seed))
    half.update(samples(4, 1))
    half.save_checkpoint(tmp_path / "checkpoint", 1)
    again = make(model)
    again.load_checkpoint(tmp_path / "checkpoint")
    again.update(samples(4, 2))
    assert largest_gap(whole.log_probs(PROBE), again.log_probs(PROBE)) < 1e-6
    size = sum(file.stat().st_size for file in (tmp_path / "checkpoint").glob("model_*.pt"))
    assert size < (model / "model.safetensors").stat().st_size / 4


def test_ranks_share_adapters(model: Path, tmp_path: Path) -> None:
    one, two = make(model), make(model, ranks=2)
    for learner in (one, two):
        learner.update(samples(4, 1))
    assert largest_gap(one.log_probs(PROBE), two.log_probs(PROBE)) < 10 * EXACT
    ours, theirs = (exported(learner, tmp_path / f"{n}") for n, learner in enumerate((one, two)))
    assert ours.keys() == theirs.keys()
    assert max(float((ours[name] - theirs[name]).abs().max()) for name in ours) < 1e-5
    two.save_model(tmp_path / "merged")
    assert largest_gap(two.log_probs(PROBE), make(tmp_path / "merged", rank=0).log_probs(PROBE)) < EXACT
    two.close()
