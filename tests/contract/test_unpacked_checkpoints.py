"""A checkpoint becomes a model folder, however many processes wrote it and whether they trained all weights or adapters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from safetensors.torch import load_file

from services.trainer.journal.unpack import unpack
from services.trainer.ports import LearnerSettings
from shared.config import Config, EngineConfig, LoraConfig, OptimConfig, ParallelConfig, TrainerConfig
from shared.errors import ConfigError
from tests.contract.learner_kit import model
from tests.contract.test_ranks_contract import samples

__all__ = ["model"]

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore")]

LORA = LoraConfig(lora_rank=4, lora_alpha=32, target_modules=("q_proj", "v_proj", "down_proj"))


def trained(model: Path, run: Path, lora: LoraConfig) -> Path:
    """A run with a checkpoint of two ranks, and `expected/`, the model folder that they wrote themselves."""
    from services.trainer.learner import VerlLearner

    settings = LearnerSettings(lora=lora, optim=OptimConfig(lr=1e-2), parallel=ParallelConfig(ranks=2))
    with closing(VerlLearner(model, settings)) as learner:
        for seed in (1, 2):
            learner.update(samples(4, seed))
        learner.save_checkpoint(run / "checkpoints" / "global_step_2" / "actor", 2)
        learner.save_model(run / "expected")
    configure(run, model, lora)
    return run


def configure(run: Path, model: Path, lora: LoraConfig) -> None:
    config = Config(engine=EngineConfig(model=str(model)), trainer=TrainerConfig(lora=lora))
    (run / "config.json").write_bytes(msgspec.json.encode(config))


def weights(folder: Path) -> Iterator[Path]:
    yield folder / "model.safetensors"
    adapter = folder / "adapter" / "adapter_model.safetensors"
    if adapter.is_file():
        yield adapter


def check(run: Path, model: Path) -> None:
    """What is unpacked is what the ranks had, and not what they began with."""
    made, expected = unpack(run, 2), run / "expected"
    files = list(weights(expected))
    assert [file.relative_to(made) for file in weights(made)] == [file.relative_to(expected) for file in files]
    for ours, theirs in zip(weights(made), files, strict=True):
        assert largest_difference(ours, theirs) < 1e-6
    assert largest_difference(made / "model.safetensors", model / "model.safetensors") > 1e-3


def largest_difference(one: Path, other: Path) -> float:
    ours, theirs = load_file(one), load_file(other)
    assert ours.keys() == theirs.keys()
    return max(float((ours[name] - theirs[name]).abs().max()) for name in ours)


def test_adapters_of_ranks_are_merged_with_the_model_that_they_were_trained_beside(model: Path, tmp_path: Path) -> None:
    run = trained(model, tmp_path / "run-1", LORA)
    assert len(list(weights(run / "expected"))) == 2
    check(run, model)


def test_what_ranks_wrote_becomes_their_model_and_anything_else_is_refused(model: Path, tmp_path: Path) -> None:
    run = trained(model, tmp_path / "run-1", LoraConfig())
    configure(run, model, LORA)
    with pytest.raises(ConfigError, match="not of the model that the run is configured with"):
        unpack(run, 2)
    configure(run, model, LoraConfig())
    (part,) = run.glob("checkpoints/*/actor/model_world_size_2_rank_1.pt")
    part.rename(tmp_path / "kept")
    with pytest.raises(ConfigError, match=r"rank_1.pt: this part of the checkpoint is missing"):
        unpack(run, 2)
    assert not list(run.glob("checkpoints/*/model*"))
    (tmp_path / "kept").rename(part)
    check(run, model)
