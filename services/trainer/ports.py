"""What the run asks of the learner. `services.trainer.learner` is the real one; it is imported only when a run begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from services.trainer.batch.samples import Sample
from shared.config import ActorConfig, AlgorithmConfig, LoraConfig, OptimConfig, ParallelConfig

Part = Literal["whole", "base", "adapters"]
"""Of a model: all its weights with adapters added to them, all without, or the adapters alone."""


@dataclass(frozen=True, slots=True)
class LearnerSettings:
    """How a learner is set up.

    Attributes:
        algorithm: what a batch's tokens weigh.
        actor: the loss and its steps.
        optim: the optimizer and its schedule.
        lora: adapters, to be trained in place of all weights.
        parallel: where it runs.
        steps: updates of the whole run, which a schedule is stretched over.
        threads: of torch.
        seed: of torch.
        temperature: that rollouts are sampled at; the policy that is trained is the one at this temperature.
    """

    algorithm: AlgorithmConfig = field(default_factory=AlgorithmConfig)
    actor: ActorConfig = field(default_factory=ActorConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    lora: LoraConfig = field(default_factory=LoraConfig)
    parallel: ParallelConfig = field(default_factory=ParallelConfig)
    steps: int = 1
    threads: int = 1
    seed: int = 0
    temperature: float = 1.0


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

    def export(self, file: Path, part: Part = "whole") -> None:
        """Writes weights as safetensors, shared ones under each of their names: what an engine loads.

        Of adapters, for a weight `w` two matrices: what is to be added to it is `w.lora_B` @ `w.lora_A`.
        """
        ...

    def tensors(self) -> Mapping[str, Any]:
        """All weights as torch tensors, as `export` writes them."""
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

    def close(self) -> None:
        """Ends processes of its own, and gives back their GPUs; nothing else may be asked of it afterwards."""
        ...


LearnerFactory = Callable[[Path, LearnerSettings], Learner]
"""Makes a learner from a model folder, in the thread that will use it."""
