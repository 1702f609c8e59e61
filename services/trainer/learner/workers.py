"""veRL's workers as this project sets them up on CPUs: FSDP2 over gloo, fp32."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path

from services.trainer.verl import cpu_platform  # before all else of veRL: it sets the platform

# isort: split
import msgspec
import torch
import torch.distributed as dist
from verl.trainer.config import CheckpointConfig
from verl.workers.config import (
    FSDPActorConfig,
    FSDPEngineConfig,
    FSDPOptimizerConfig,
    HFModelConfig,
    PolicyLossConfig,
    TrainingWorkerConfig,
)

from services.trainer.gpu.group import RayGroup
from services.trainer.gpu.nodes import Nodes
from services.trainer.learner.one import OneWorker
from services.trainer.model import is_tied
from services.trainer.ports import LearnerSettings
from services.trainer.ranks.group import RankGroup
from services.trainer.verl import adapters

Worker = OneWorker | RankGroup | RayGroup
"""All have the methods of veRL's worker."""
_FP32 = {"param_dtype": "fp32", "reduce_dtype": "fp32", "buffer_dtype": "fp32"}


def join_group() -> None:
    """A process group of one, without sockets to listen on; veRL's workers read the rank from the environment."""
    if dist.is_initialized():
        return
    cpu_platform.register_engine()
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())  # type: ignore[attr-defined]


def workers(model: Path, settings: LearnerSettings) -> tuple[Worker, Worker | None]:
    """What trains a model, and with a divergence in the loss what says what the model that it began as makes of a batch. None
    for that where it is the first one without its adapters."""
    kinds = (True, False) if settings.actor.use_kl_loss and not settings.lora.lora_rank else (True,)
    if settings.parallel.nnodes:
        nodes = Nodes(settings.parallel, len(kinds))
        made: list[Worker] = [RayGroup(nodes, model, settings, trains=trains) for trains in kinds]
    elif settings.parallel.ranks > 1:
        made = [RankGroup(partial(worker, model, settings, trains), settings.parallel.ranks) for trains in kinds]
    else:
        join_group()
        made = [worker(model, settings, trains) for trains in kinds]
    return made[0], made[1] if len(made) > 1 else None


def worker(model: Path, settings: LearnerSettings, trains: bool) -> OneWorker:
    """A rank's worker, with its model loaded. One that does not train only says what the model makes of a batch."""
    torch.set_num_threads(settings.threads)
    torch.manual_seed(settings.seed)
    made = OneWorker(worker_config(model, settings, trains))
    made.reset()
    return made


def worker_config(model: Path, settings: LearnerSettings, trains: bool) -> TrainingWorkerConfig:
    """All that a worker on a CPU is made from."""
    # A worker that can only infer keeps its weights in pinned memory, which takes an accelerator. An optimizer that never steps
    # holds no state.
    forward_only = not trains and torch.accelerator.is_available()
    return TrainingWorkerConfig(
        model_type="language_model",
        model_config=_model_config(model, settings),
        engine_config=replace(engine_config(settings), forward_only=forward_only),
        optimizer_config=optimizer_config(settings),
        checkpoint_config=CheckpointConfig(save_lora_only=True),
    )


def _model_config(model: Path, settings: LearnerSettings) -> HFModelConfig:
    # veRL's plain path takes one logsumexp per token on a CPU; its "fused" torch kernel works in chunks and halves a step. It
    # reads the output head past FSDP2, which shards a head apart unless it is the embeddings ("mixed Tensor and DTensor").
    return HFModelConfig(
        path=str(model),
        use_remove_padding=False,
        use_fused_kernels=is_tied(model),
        fused_kernel_options={"impl_backend": "torch"},
        enable_gradient_checkpointing=False,
        override_config={"attn_implementation": "sdpa"},
        **adapters.fields(settings.lora),
    )


def engine_config(settings: LearnerSettings) -> FSDPEngineConfig:
    """How the model is laid out and its batches are cut."""
    budget = settings.actor.ppo_max_token_len_per_gpu
    return FSDPEngineConfig(
        strategy="fsdp2",
        use_torch_compile=False,
        model_dtype="fp32",
        mixed_precision=_FP32,
        use_dynamic_bsz=True,
        max_token_len_per_gpu=budget,
        infer_max_token_len_per_gpu=budget,
    )


def optimizer_config(settings: LearnerSettings) -> FSDPOptimizerConfig:
    """The optimizer and its schedule."""
    chosen = msgspec.structs.asdict(settings.optim)
    return FSDPOptimizerConfig(clip_grad=settings.actor.grad_clip, total_training_steps=settings.steps, **chosen)


def actor_config(settings: LearnerSettings) -> FSDPActorConfig:
    """What veRL's losses read. Its mini-batch fields only have to be valid: this project cuts mini-batches itself."""
    actor = settings.actor
    return FSDPActorConfig(
        strategy="fsdp2",
        rollout_n=1,
        ppo_mini_batch_size=1,
        ppo_micro_batch_size_per_gpu=1,
        use_dynamic_bsz=True,
        ppo_max_token_len_per_gpu=actor.ppo_max_token_len_per_gpu,
        loss_agg_mode="token-mean",
        clip_ratio=actor.clip_ratio,
        clip_ratio_low=actor.clip_ratio_low or actor.clip_ratio,
        clip_ratio_high=actor.clip_ratio_high or actor.clip_ratio,
        clip_ratio_c=actor.clip_ratio_c,
        policy_loss=PolicyLossConfig(loss_mode=actor.policy_loss.loss_mode, dro_beta=actor.policy_loss.dro_beta),
        use_kl_loss=actor.use_kl_loss,
        kl_loss_coef=actor.kl_loss_coef,
        kl_loss_type=actor.kl_loss_type,
        entropy_coeff=actor.entropy_coeff,
        optim=optimizer_config(settings),
        fsdp_config=engine_config(settings),
    )
