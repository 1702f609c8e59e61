"""What this project asks of veRL's Megatron engine, as far as it can be shown without one."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from safetensors.torch import load_file

from shared.errors import ConfigError

# Imports of torch and veRL warn; they happen inside tests, where this applies.
pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore")]


class MegatronLike:
    """An engine whose modules are a list, as veRL's Megatron engine has them, and know no tied weights."""

    def __init__(self, tied: bool) -> None:
        import torch
        from transformers import LlamaConfig

        config = LlamaConfig(
            vocab_size=16, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2,
            tie_word_embeddings=tied, architectures=["LlamaForCausalLM"],
        )  # fmt: skip
        self.module = [torch.nn.Linear(1, 1)]
        self.model_config = SimpleNamespace(hf_config=config)

    def get_per_tensor_param(self) -> tuple[Any, None]:
        """Weights by the names that transformers has; of tied ones the first."""
        import torch

        return iter([("model.embed_tokens.weight", torch.ones(16, 8))]), None


@pytest.mark.parametrize("tied", [True, False])
def test_tied_weights_are_exported_by_each_of_their_names_though_modules_do_not_tell_them(tied: bool, tmp_path: Path) -> None:
    from services.trainer.learner import folders

    folders.export(MegatronLike(tied), tmp_path / "w.safetensors", "whole", writes=True)
    found = load_file(tmp_path / "w.safetensors")
    assert found.keys() == {"model.embed_tokens.weight"} | ({"lm_head.weight"} if tied else set())
    assert all(bool((tensor == 1).all()) for tensor in found.values())


def test_weights_of_a_checkpoint_are_not_taken_without_saying_what_would_help(tmp_path: Path) -> None:
    from services.trainer.learner.one import OneWorker

    worker = cast(Any, SimpleNamespace(engine=MegatronLike(tied=True)))
    with pytest.raises(ConfigError, match="under fsdp2 only"):
        OneWorker.load_weights(worker, tmp_path)


@pytest.mark.skipif(find_spec("megatron") is not None, reason="megatron-core is there")
def test_a_worker_says_that_megatron_is_missing() -> None:
    from services.trainer.gpu.worker import need_megatron

    with pytest.raises(ConfigError, match="needs the package megatron-core"):
        need_megatron()
