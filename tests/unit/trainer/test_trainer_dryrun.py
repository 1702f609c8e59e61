"""What the dry run says of sizes and memory: pure, so no model is read."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore")]  # the rooms import torch

MOE: dict[str, Any] = {
    "family": "qwen3_moe", "parameters": 30_532_122_624, "expert_parameters": 28_991_029_248, "layers": 48, "hidden": 2048,
    "heads": 32, "kv_heads": 4, "vocabulary": 151_936, "experts": 128, "max_length": 40_960,
}  # fmt: skip
TRAINER: dict[str, Any] = {"groups": 8, "n": 8, "actor": {"ppo_max_token_len_per_gpu": 8192}}
PARALLEL: dict[str, Any] = {
    "nnodes": 2, "strategy": "megatron", "tensor_model_parallel_size": 4, "context_parallel_size": 4,
    "expert_model_parallel_size": 8, "optimizer_offload": True,
}  # fmt: skip


def found(parallel: dict[str, Any] | None = None, trainer: dict[str, Any] | None = None, **shape: Any) -> list[str]:
    from services.trainer.dryrun.shape import Shape
    from services.trainer.dryrun.sizes import problems
    from shared.config import Config

    settings = {**TRAINER, **(trainer or {}), "parallel": {**PARALLEL, **(parallel or {})}}
    tree = {"engine": {"max_model_len": 32_768}, "trainer": settings}
    return problems(msgspec.convert(tree, Config), Shape(**{**MOE, **shape}))


def test_sizes_that_divide_are_right() -> None:
    assert found() == []


@pytest.mark.parametrize(
    ("parallel", "trainer", "shape", "says"),
    [
        ({"tensor_model_parallel_size": 3}, {}, {}, "does not divide 32 heads"),
        ({"context_parallel_size": 3}, {}, {}, "does not divide the 16 processes"),
        ({"pipeline_model_parallel_size": 5}, {}, {}, "does not divide the 48 layers"),
        ({"expert_model_parallel_size": 16}, {}, {"experts": 60}, "does not divide the 60 experts"),
        ({}, {}, {"experts": 0}, "has no experts"),
        ({"nnodes": 0}, {}, {}, "needs GPUs"),
        ({"ranks": 2}, {}, {}, "without GPUs"),
        ({"context_parallel_size": 1}, {}, {}, "a micro-batch only 8192"),
        ({}, {"actor": {"ppo_max_token_len_per_gpu": 8192, "ppo_mini_batch_size": 3}}, {}, "does not divide trainer.groups"),
        ({"ulysses_sequence_parallel_size": 2}, {}, {}, "fsdp2's"),
        ({"strategy": "fsdp2"}, {}, {}, "Megatron's"),
        ({}, {}, {"max_length": 4096}, "made for 4096"),
    ],
)
def test_sizes_that_do_not_divide_are_told(
    parallel: dict[str, Any], trainer: dict[str, Any], shape: dict[str, Any], says: str
) -> None:
    assert any(says in problem for problem in found(parallel, trainer, **shape))


def test_memory_is_what_the_weights_and_their_optimizer_take() -> None:
    from services.trainer.dryrun.memory import estimate
    from services.trainer.dryrun.shape import Shape
    from shared.config import Config

    shape = Shape(**{**MOE, "parameters": 8_000_000_000, "expert_parameters": 0, "experts": 0})
    fsdp = {"trainer": {"parallel": {"nnodes": 1, "strategy": "fsdp2"}}}
    parts = estimate(msgspec.convert(fsdp, Config), shape)
    assert (parts["weights"], parts["gradients"], parts["optimizer"]) == (4.0, 4.0, 8.0)  # of 128 GB, an eighth
    tensor = {"nnodes": 1, "strategy": "megatron", "tensor_model_parallel_size": 8}
    parts = estimate(msgspec.convert({"trainer": {"parallel": tensor}}, Config), shape)
    assert (parts["weights"], parts["gradients"], parts["optimizer"]) == (2.0, 4.0, 12.0)
