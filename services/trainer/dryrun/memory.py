"""What the fullest GPU of a learner must hold, in GB (1e9 bytes): an estimate, within a quarter at best. Pure.

Weights, gradients and AdamW's two moments are exact for the dtypes that veRL uses. Activations are those of a full micro-batch
with gradient checkpointing: one hidden state per layer, one layer worked out again, and the logits with their gradient.
"""

from __future__ import annotations

from services.trainer.dryrun.shape import Shape
from shared.config import Config, ParallelConfig

_GB = 1e9
_LAYER = 34
"""Bytes by which one layer's activations in bf16 exceed a number per token and hidden unit (Korthikanti et al., 2022)."""
_LOGITS = 10
"""Bytes of a logit: bf16, its fp32 copy, and its gradient."""


def estimate(config: Config, shape: Shape) -> dict[str, float]:
    """GB by what they are for."""
    parallel = config.trainer.parallel
    found = _fsdp(parallel, shape) if parallel.strategy == "fsdp2" else _megatron(parallel, shape)
    tokens = config.trainer.actor.ppo_max_token_len_per_gpu
    across = parallel.tensor_model_parallel_size if parallel.strategy == "megatron" else 1
    layers = shape.layers / parallel.pipeline_model_parallel_size
    found["activations"] = tokens * shape.hidden * (2 * layers + _LAYER) / across
    found["logits"] = tokens * shape.vocabulary * _LOGITS / across
    return {name: size / _GB for name, size in found.items()}


def _fsdp(parallel: ParallelConfig, shape: Shape) -> dict[str, float]:
    """fp32 weights, gradients and moments, all sharded; the layer at hand and the next one gathered in bf16."""
    shards = parallel.fsdp_size if parallel.fsdp_size > 0 else parallel.world
    mine = shape.parameters / shards
    return {
        "weights": 0.0 if parallel.param_offload else 4 * mine,
        "gradients": 4 * mine,
        "optimizer": 0.0 if parallel.optimizer_offload else 8 * mine,
        "gathered layers": 2 * 2 * shape.parameters / shape.layers if shards > 1 else 0.0,
    }


def _megatron(parallel: ParallelConfig, shape: Shape) -> dict[str, float]:
    """bf16 weights and fp32 gradients of a GPU's own part; fp32 copies and moments sharded over those with the same part."""
    tensor, pipeline = parallel.tensor_model_parallel_size, parallel.pipeline_model_parallel_size
    dense = (shape.parameters - shape.expert_parameters) / (tensor * pipeline)
    experts = shape.expert_parameters / (max(parallel.expert_model_parallel_size, 1) * pipeline)
    twins = parallel.world / (tensor * pipeline)
    expert_twins = parallel.world / (parallel.expert_model_parallel_size * pipeline)
    return {
        "weights": 2 * (dense + experts),
        "gradients": 4 * (dense + experts),
        "optimizer": 0.0 if parallel.optimizer_offload else 12 * (dense / twins + experts / expert_twins),
    }
