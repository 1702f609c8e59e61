"""veRL's `TrainingWorker` (FSDP2 over gloo, one rank) behind the trainer's `Learner` port.

Everything here is synchronous and belongs to one thread. Importing this module imports torch and veRL.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from services.trainer import cpu_platform  # before all else of veRL: it sets the platform

# isort: split
import msgspec
import torch
import torch.distributed as dist
from safetensors.torch import save_file
from tensordict import TensorDict
from torch import Tensor
from verl.trainer.config import CheckpointConfig
from verl.utils import tensordict_utils as tu
from verl.workers.config import FSDPActorConfig, FSDPEngineConfig, FSDPOptimizerConfig, HFModelConfig, TrainingWorkerConfig
from verl.workers.engine_workers import TrainingWorker
from verl.workers.utils.losses import ppo_loss, sft_loss
from verl.workers.utils.padding import no_padding_2_padding

from services.trainer.batch import jagged, padded, sequences
from services.trainer.ports import LearnerSettings, Update
from services.trainer.samples import Sample
from shared.errors import ForgeError

WEIGHTS = "model.safetensors"
_NOT_COPIED = shutil.ignore_patterns("*.safetensors", "*.safetensors.index.json", "*.bin", "*.bin.index.json", "*.pt")
_FP32 = {"param_dtype": "fp32", "reduce_dtype": "fp32", "buffer_dtype": "fp32"}


class VerlLearner:
    """One model, one optimizer, on the CPU in fp32.

    Several may be made in one process, one after the other; they share its process group.

    Args:
        model: model folder in Hugging Face format.
        settings: see `LearnerSettings`.
    """

    def __init__(self, model: Path, settings: LearnerSettings) -> None:
        _join_group()
        torch.set_num_threads(settings.threads)
        torch.manual_seed(settings.seed)
        self._model = model
        self._temperature = settings.temperature
        correction = settings.algorithm.rollout_correction
        self._is_threshold = float(correction.rollout_is_threshold) if correction.rollout_is == "token" else 0.0
        engine = _engine_config(settings)
        optimizer = _optimizer_config(settings)
        self._actor = _actor_config(settings, engine, optimizer)
        self._worker = TrainingWorker(
            TrainingWorkerConfig(
                model_type="language_model",
                model_config=_model_config(model),
                engine_config=engine,
                optimizer_config=optimizer,
                checkpoint_config=CheckpointConfig(),
            )
        )
        self._worker.reset()

    def log_probs(self, sequences_: Sequence[Sequence[int]]) -> list[list[float]]:
        """Log-probs (nats, fp32) of every token after the first: L token ids give L - 1 values."""
        values = self._infer(sequences(sequences_), 1.0)
        return [row[: len(s) - 1].tolist() for row, s in zip(values, sequences_, strict=True)]

    def sft_step(self, samples: Sequence[Sample], lr: float) -> float:
        """One supervised step at a learning rate on the tokens with mask 1. Returns the mean loss per token, in nats."""
        for group in self._worker.engine.optimizer.param_groups:
            group["lr"] = lr
        batch = jagged(padded(samples))
        # veRL's sft_loss wants the mask over whole sequences, not over responses.
        masks = [torch.tensor([0] * s.prompt_len + s.mask) for s in samples]
        batch["loss_mask"] = torch.nested.as_nested_tensor(masks, layout=torch.jagged)
        tu.assign_non_tensor(
            batch, global_token_num=[len(s.ids) for s in samples], global_batch_size=len(samples), temperature=1.0,
            calculate_entropy=False, update_lr_scheduler=False,
        )  # fmt: skip
        self._worker.set_loss_fn(partial(sft_loss, config=self._actor))
        return float(tu.get(self._worker.train_batch(batch), "metrics")["loss"])

    def update(self, samples: Sequence[Sample]) -> Update:
        """One policy-gradient step on all samples: old log-probs from this model, veRL's `ppo_loss`, one optimizer step.

        Every token is weighed by how much likelier it is to this model than to the one that sampled it, up to the threshold.

        Raises:
            ForgeError: the gradient is not finite (veRL then leaves the weights as they were).
        """
        tensors = padded(samples)
        old = self._infer(tensors, self._temperature)
        shift = (old - tensors["rollout_log_probs"]) * tensors["response_mask"]
        batch = jagged(tensors)
        batch["old_log_probs"] = old
        if self._is_threshold:
            batch["rollout_is_weights"] = shift.exp().clamp(max=self._is_threshold)
        tu.assign_non_tensor(
            batch, mini_batch_size=len(samples), epochs=1, seed=0, dataloader_kwargs={"shuffle": False},
            global_batch_size=len(samples), temperature=self._temperature, calculate_entropy=False,
        )  # fmt: skip
        self._worker.set_loss_fn(partial(ppo_loss, config=self._actor))
        metrics = _scalars(tu.get(self._worker.train_mini_batch(batch), "metrics"))
        if not torch.isfinite(torch.tensor(metrics["actor/grad_norm"])):
            raise ForgeError("the gradient is not finite; lower trainer.optim.lr, or look at the rewards")
        return Update(metrics, shift.abs().amax(-1).tolist())

    def export(self, file: Path) -> None:
        """Writes all weights as safetensors (fp32), tied ones under each of their names."""
        weights = self._weights()
        for name, source in self._tied().items():
            weights[name] = weights[source].clone()
        _save(weights, file)

    def save_model(self, folder: Path) -> None:
        """Writes a model folder that transformers can load: weights of now, all else from the model it began as."""
        shutil.copytree(self._model, folder, ignore=_NOT_COPIED, dirs_exist_ok=True)
        weights = self._weights()
        for name in self._tied():
            weights.pop(name, None)
        _save(weights, folder / WEIGHTS)

    def save_checkpoint(self, folder: Path, step: int) -> None:
        """Writes weights, optimizer state and random state in veRL's layout."""
        self._worker.save_checkpoint(str(folder), global_step=step)

    def load_checkpoint(self, folder: Path) -> None:
        """Goes on from what `save_checkpoint` wrote."""
        self._worker.load_checkpoint(str(folder), del_local_after_load=False)

    def _infer(self, tensors: TensorDict, temperature: float) -> Tensor:
        """Log-probs (nats) of all response tokens, (B, R) float32."""
        batch = jagged(tensors)
        tokens = tensors["attention_mask"].sum(-1).tolist()
        tu.assign_non_tensor(
            batch, compute_loss=False, calculate_entropy=False, temperature=temperature, global_token_num=tokens
        )
        values: Tensor = no_padding_2_padding(self._worker.infer_batch(batch)["log_probs"], batch)
        return values

    def _weights(self) -> dict[str, Tensor]:
        parameters, _ = self._worker.engine.get_per_tensor_param()
        return {name: tensor.detach().contiguous() for name, tensor in parameters}

    def _tied(self) -> dict[str, str]:
        """Names of weights that are another one's tensor -> the name of that one."""
        return dict(self._worker.engine.module.all_tied_weights_keys)


def _join_group() -> None:
    """A process group of one, without sockets to listen on; veRL's workers read the rank from the environment."""
    if dist.is_initialized():
        return
    cpu_platform.register_engine()
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())  # type: ignore[attr-defined]


def _model_config(model: Path) -> HFModelConfig:
    # veRL's plain path takes one logsumexp per token on a CPU; its "fused" torch kernel works in chunks and halves a step.
    return HFModelConfig(
        path=str(model),
        use_remove_padding=False,
        use_fused_kernels=True,
        fused_kernel_options={"impl_backend": "torch"},
        enable_gradient_checkpointing=False,
        override_config={"attn_implementation": "sdpa"},
    )


def _engine_config(settings: LearnerSettings) -> FSDPEngineConfig:
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


def _optimizer_config(settings: LearnerSettings) -> FSDPOptimizerConfig:
    chosen = msgspec.structs.asdict(settings.optim)
    return FSDPOptimizerConfig(clip_grad=settings.actor.grad_clip, total_training_steps=settings.steps, **chosen)


def _actor_config(settings: LearnerSettings, engine: FSDPEngineConfig, optimizer: FSDPOptimizerConfig) -> FSDPActorConfig:
    # The batch is one mini-batch whatever its size, so veRL's mini-batch fields only have to be valid.
    actor = settings.actor
    return FSDPActorConfig(
        strategy="fsdp2",
        rollout_n=1,
        ppo_mini_batch_size=1,
        ppo_micro_batch_size_per_gpu=1,
        use_dynamic_bsz=True,
        ppo_max_token_len_per_gpu=actor.ppo_max_token_len_per_gpu,
        use_kl_loss=False,
        loss_agg_mode="token-mean",
        clip_ratio=actor.clip_ratio,
        clip_ratio_low=actor.clip_ratio_low or actor.clip_ratio,
        clip_ratio_high=actor.clip_ratio_high or actor.clip_ratio,
        clip_ratio_c=actor.clip_ratio_c,
        optim=optimizer,
        fsdp_config=engine,
    )


def _scalars(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The `actor/` metrics of veRL as floats (a list holds one value per mini-batch), named as its trainer names them."""
    flat = {name: value[-1] if isinstance(value, list) else value for name, value in metrics.items()}
    flat |= {f"actor/{name}": flat[name] for name in ("grad_norm", "lr")}
    return {name: float(value) for name, value in flat.items() if name.startswith("actor/")}


def _save(weights: Mapping[str, Tensor], file: Path) -> None:
    """Writes through a temporary file, so that nobody reads half of it."""
    part = file.with_name(file.name + ".part")
    save_file(dict(weights), part, metadata={"format": "pt"})
    part.replace(file)
