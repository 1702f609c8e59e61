"""veRL's `TrainingWorker` behind the trainer's `Learner` port.

Everything here is synchronous and belongs to one thread. Importing this module imports torch and veRL.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from services.trainer.learner.workers import Worker, actor_config, workers

# isort: split
import torch
from tensordict import TensorDict
from torch import Tensor
from verl.utils import tensordict_utils as tu
from verl.workers.utils.losses import sft_loss
from verl.workers.utils.padding import no_padding_2_padding

from services.trainer.batch.batch import jagged, padded, sequences
from services.trainer.batch.samples import Sample
from services.trainer.gpu.group import RayGroup
from services.trainer.learner.loss import policy_loss
from services.trainer.learner.metrics import mean_of_steps, scalars
from services.trainer.learner.prepare import cut_steps, set_policies
from services.trainer.learner.share import evened, idle
from services.trainer.ports import LearnerSettings, Part, Update
from services.trainer.ranks.group import RankGroup
from services.trainer.verl.vision import Vision, is_vision
from shared.errors import ForgeError


class VerlLearner:
    """One model, one optimizer, and with a divergence in the loss the model that it began as.

    Several may be made in one process, one after the other; they share its process group.

    Args:
        model: model folder in Hugging Face format, of the model that RL begins with, after a resume as well.
        settings: see `LearnerSettings`.
    """

    def __init__(self, model: Path, settings: LearnerSettings) -> None:
        torch.set_num_threads(settings.threads)
        self._parts = settings.parallel.data_parallel
        self._model = model
        self._vision = Vision(model) if is_vision(model) else None
        self._settings = settings
        self._actor = actor_config(settings)
        self._worker, self._reference = workers(model, settings)

    def log_probs(self, sequences_: Sequence[Sequence[int]]) -> list[list[float]]:
        """Log-probs (nats, fp32) of every token after the first: L token ids give L - 1 values."""
        values, _ = self._infer(self._worker, sequences(sequences_, self._vision), 1.0)
        return [row[: len(s) - 1].tolist() for row, s in zip(values, sequences_, strict=True)]

    def sft_step(self, samples: Sequence[Sample], lr: float) -> float:
        """One supervised step at a learning rate on the tokens with mask 1. Returns the mean loss per token, in nats."""
        self._worker.set_lr(lr)
        samples = [*samples, *[idle(samples[0])] * (-len(samples) % self._parts)]
        batch = jagged(padded(samples, self._vision))
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
        """Policy-gradient steps on all samples: `ppo_epochs` times over, cut into mini-batches of whole groups.

        Raises:
            ForgeError: a row is longer than a micro-batch may be, or the gradient is not finite (veRL then leaves the weights
                as they were).
        """
        self._check_lengths(samples)
        batch, metrics, gaps = self._prepare(samples)
        actor = self._settings.actor
        plan = cut_steps(batch, samples, actor.ppo_mini_batch_size, self._settings.algorithm) * actor.ppo_epochs
        self._worker.set_loss_fn(partial(policy_loss, config=self._actor))
        steps = [self._step(batch[rows], last=i == len(plan)) for i, rows in enumerate(plan, 1)]
        return Update(metrics | mean_of_steps(steps), gaps)

    def export(self, file: Path, part: Part = "whole") -> None:
        """Writes weights as safetensors (fp32), tied ones under each of their names."""
        self._worker.export(file, part)

    def tensors(self) -> dict[str, Tensor]:
        """All weights (fp32), tied ones under each of their names."""
        return self._worker.tensors()

    def save_model(self, folder: Path) -> None:
        """Writes a model folder that transformers can load: weights of now, all else from the model it began as."""
        self._worker.save_model(self._model, folder)

    def save_checkpoint(self, folder: Path, step: int) -> None:
        """Writes weights, optimizer state, place in the schedule and random state in veRL's layout."""
        self._worker.save_checkpoint(str(folder), global_step=step)

    def load_checkpoint(self, folder: Path) -> None:
        """Goes on from what `save_checkpoint` wrote."""
        self._worker.load_checkpoint(str(folder), del_local_after_load=False)

    def close(self) -> None:
        """Ends the processes of the learner, if it has some of its own."""
        for worker in (self._worker, self._reference):
            if isinstance(worker, RankGroup | RayGroup):
                worker.close()

    def _check_lengths(self, samples: Sequence[Sample]) -> None:
        longest, budget = max(len(s.ids) for s in samples), self._settings.actor.ppo_max_token_len_per_gpu
        if longest > budget:
            raise ForgeError(
                f"a row of {longest} tokens does not fit into a micro-batch of trainer.actor.ppo_max_token_len_per_gpu = "
                f"{budget}; set that to {longest} or more, or engine.max_model_len to less"
            )

    def _prepare(self, samples: Sequence[Sample]) -> tuple[TensorDict, dict[str, float], list[float]]:
        """The batch with all that the loss compares with, veRL's metrics of it, and the log-prob gaps of its rows."""
        batch, temperature = padded(samples, self._vision), self._settings.temperature
        mask = batch["response_mask"]
        now, entropy = self._infer(self._worker, batch, temperature)
        reference = self._refer(batch, temperature) if self._settings.actor.use_kl_loss else None
        metrics = set_policies(batch, now, reference, self._settings.algorithm.rollout_correction)
        metrics["actor/entropy"] = ((entropy * mask).sum() / mask.sum()).item()
        gaps = ((now - batch["rollout_log_probs"]) * mask).abs().amax(-1)
        return batch, metrics, gaps.tolist()

    def _refer(self, batch: TensorDict, temperature: float) -> Tensor:
        """What the model that it began as makes of a batch: another worker, or the same one without its adapters."""
        if self._reference is not None:
            return self._infer(self._reference, batch, temperature)[0]
        return self._infer(self._worker, batch, temperature, adapted=False)[0]

    def _step(self, rows: TensorDict, last: bool) -> dict[str, float]:
        """One optimizer step; the last one of an update moves the schedule on."""
        rows = evened(rows, self._parts)
        batch = jagged(rows)
        tu.assign_non_tensor(
            batch, global_token_num=rows["attention_mask"].sum(-1).tolist(), global_batch_size=len(rows),
            temperature=self._settings.temperature, calculate_entropy=bool(self._actor.entropy_coeff), update_lr_scheduler=last,
        )  # fmt: skip
        metrics = scalars(tu.get(self._worker.train_batch(batch), "metrics"))
        if not torch.isfinite(torch.tensor(metrics["actor/grad_norm"])):
            raise ForgeError("the gradient is not finite; lower trainer.optim.lr, or look at the rewards")
        return metrics

    def _infer(self, worker: Worker, tensors: TensorDict, temperature: float, *, adapted: bool = True) -> tuple[Tensor, Tensor]:
        """Log-probs of all response tokens, and the entropies where they were drawn (nats), both (B, R) float32."""
        rows = evened(tensors, self._parts)
        batch = jagged(rows)
        tokens = rows["attention_mask"].sum(-1).tolist()
        tu.assign_non_tensor(
            batch, compute_loss=False, calculate_entropy=True, temperature=temperature, global_token_num=tokens,
            no_lora_adapter=not adapted,
        )  # fmt: skip
        found = worker.infer_batch(batch)
        log_probs, entropy = (no_padding_2_padding(found[name], batch)[: len(tensors)] for name in ("log_probs", "entropy"))
        return log_probs, entropy
