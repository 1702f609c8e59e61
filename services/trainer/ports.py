"""What the run asks of the learner. `services.trainer.learner` is the real one; it is imported only when a run begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from services.trainer.samples import Sample


@dataclass(frozen=True, slots=True)
class LearnerSettings:
    """How a learner is set up; the names are veRL's where it has one.

    Attributes:
        lr: learning rate.
        betas: of AdamW.
        optimizer: `module:Class` of a torch optimizer.
        clip_ratio: of the policy ratio.
        grad_clip: largest gradient norm.
        max_token_len: token budget of one micro-batch.
        threads: of torch.
        seed: of torch.
        temperature: that rollouts are sampled at; the policy that is trained is the one at this temperature.
        rollout_is_threshold: that importance weights are truncated at (veRL `rollout_correction.rollout_is=token`); 0 for none.
    """

    lr: float
    betas: tuple[float, float] = (0.9, 0.999)
    optimizer: str = "torch.optim:AdamW"
    clip_ratio: float = 0.2
    grad_clip: float = 1.0
    max_token_len: int = 16384
    threads: int = 1
    seed: int = 0
    temperature: float = 1.0
    rollout_is_threshold: float = 2.0


@dataclass(frozen=True, slots=True)
class Update:
    """One optimizer step.

    Attributes:
        metrics: veRL's, under its names (`actor/pg_loss`, `actor/grad_norm`, ...).
        logprob_gaps: of each sample (B,), the largest difference (nats) of its trained tokens' log-probs: the engine's when it
            sampled them, and those of the weights that the step began with.
    """

    metrics: dict[str, float]
    logprob_gaps: list[float]


class Learner(Protocol):
    """A model that learns. Synchronous; all calls come from one thread."""

    def log_probs(self, sequences: Sequence[Sequence[int]]) -> list[list[float]]:
        """Log-probs, in nats, of every token after the first: L token ids give L - 1 values."""
        ...

    def sft_step(self, samples: Sequence[Sample], lr: float) -> float:
        """One supervised step at a learning rate on the tokens with mask 1. Returns the mean loss per token, in nats."""
        ...

    def update(self, samples: Sequence[Sample]) -> Update:
        """One policy-gradient step on all samples; the advantages are theirs."""
        ...

    def export(self, file: Path) -> None:
        """Writes all weights, shared ones under each of their names, as safetensors: what an engine loads."""
        ...

    def save_model(self, folder: Path) -> None:
        """Writes a model folder that transformers can load."""
        ...

    def save_checkpoint(self, folder: Path, step: int) -> None:
        """Writes all that is needed to go on: weights, optimizer state, random state."""
        ...

    def load_checkpoint(self, folder: Path) -> None:
        """Goes on from what `save_checkpoint` wrote."""
        ...


LearnerFactory = Callable[[Path, LearnerSettings], Learner]
"""Makes a learner from a model folder, in the thread that will use it."""
