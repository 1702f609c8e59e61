"""This project's settings as veRL's own, which check themselves when they are made."""

from __future__ import annotations

from pathlib import Path

from services.trainer.verl import cpu_platform  # noqa: F401 - before all else of veRL: it sets the platform

# isort: split
import msgspec
from verl.trainer.config import CheckpointConfig
from verl.workers.config import (
    EngineConfig,
    FSDPEngineConfig,
    FSDPOptimizerConfig,
    HFModelConfig,
    McoreEngineConfig,
    McoreOptimizerConfig,
    OptimizerConfig,
    TrainingWorkerConfig,
)
from verl.workers.config.engine import EngineRouterReplayConfig

from services.trainer.ports import LearnerSettings
from services.trainer.verl import adapters
from shared.config import ParallelConfig
from shared.errors import ConfigError

_BF16 = {"param_dtype": "bf16", "reduce_dtype": "fp32", "buffer_dtype": "fp32"}


def worker_config(
    model: Path, settings: LearnerSettings, parallel: ParallelConfig, trains: bool = True
) -> TrainingWorkerConfig:
    """All that a worker is made from. One that does not train only says what the model makes of a batch.

    Raises:
        ConfigError: veRL does not take the settings.
    """
    try:
        return TrainingWorkerConfig(
            model_type="language_model",
            model_config=HFModelConfig(
                path=str(model), use_remove_padding=True, enable_gradient_checkpointing=True, **adapters.fields(settings.lora)
            ),
            engine_config=engine_config(settings, parallel, trains),
            optimizer_config=optimizer_config(settings, parallel),
            checkpoint_config=CheckpointConfig(save_lora_only=True),
        )
    except (AssertionError, ValueError, TypeError, OSError) as e:
        raise ConfigError(f"veRL does not take these settings of trainer: {e}") from e


def engine_config(settings: LearnerSettings, parallel: ParallelConfig, trains: bool) -> EngineConfig:
    """How the model is laid out, and how its batches are cut."""
    budget = settings.actor.ppo_max_token_len_per_gpu
    common = {
        "use_dynamic_bsz": True, "max_token_len_per_gpu": budget, "infer_max_token_len_per_gpu": budget,
        "param_offload": parallel.param_offload, "optimizer_offload": parallel.optimizer_offload, "seed": settings.seed,
        "forward_only": not trains,
    }  # fmt: skip
    if parallel.strategy == "fsdp2":
        return FSDPEngineConfig(
            **common, strategy="fsdp2", fsdp_size=parallel.fsdp_size, mixed_precision=_BF16,
            ulysses_sequence_parallel_size=parallel.ulysses_sequence_parallel_size,
        )  # fmt: skip
    return McoreEngineConfig(
        **common, tensor_model_parallel_size=parallel.tensor_model_parallel_size,
        pipeline_model_parallel_size=parallel.pipeline_model_parallel_size,
        context_parallel_size=parallel.context_parallel_size,
        expert_model_parallel_size=parallel.expert_model_parallel_size,
        router_replay=EngineRouterReplayConfig(mode=parallel.router_replay),
    )  # fmt: skip


def optimizer_config(settings: LearnerSettings, parallel: ParallelConfig) -> OptimizerConfig:
    """The optimizer and its schedule. Megatron brings its own AdamW.

    Raises:
        ConfigError: another one is asked for under Megatron.
    """
    optim, clip = settings.optim, settings.actor.grad_clip
    if parallel.strategy == "fsdp2":
        chosen = msgspec.structs.asdict(optim)
        return FSDPOptimizerConfig(clip_grad=clip, total_training_steps=settings.steps, **chosen)
    if optim.optimizer != "AdamW":
        raise ConfigError(f"trainer.optim.optimizer = {optim.optimizer}: under megatron there is AdamW only")
    return McoreOptimizerConfig(
        lr=optim.lr, betas=optim.betas, weight_decay=optim.weight_decay, clip_grad=clip, total_training_steps=settings.steps,
        lr_warmup_steps=optim.lr_warmup_steps, lr_warmup_steps_ratio=optim.lr_warmup_steps_ratio,
        lr_decay_style=optim.lr_scheduler_type, min_lr=optim.lr * optim.min_lr_ratio,
    )  # fmt: skip
