"""The optimizer and its schedule. The names are veRL's (`actor_rollout_ref.actor.optim`)."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from shared.config.base import NonNegative, Positive, Section, Whole

Share = Annotated[float, Meta(ge=0, le=1)]


class OptimConfig(Section, frozen=True, kw_only=True):
    """The optimizer and its schedule, which moves on once a training step.

    Attributes:
        optimizer: name of its class.
        optimizer_impl: module of its class.
        lr: highest learning rate.
        betas: of AdamW.
        weight_decay: of AdamW, per unit of the learning rate.
        lr_scheduler_type: `constant`, or `cosine` down to `min_lr_ratio` of `lr` at the last step.
        lr_warmup_steps: steps in which the rate rises from 0, which is that of the first; 0 takes `lr_warmup_steps_ratio`.
        lr_warmup_steps_ratio: the same as a share of `trainer.steps`.
        min_lr_ratio: of `lr`, where `cosine` ends.
        num_cycles: waves of `cosine`; a half goes down once.
    """

    optimizer: str = "AdamW"
    optimizer_impl: str = "torch.optim"
    lr: Positive = 1e-6
    betas: tuple[Share, Share] = (0.9, 0.999)
    weight_decay: NonNegative = 0.0
    lr_scheduler_type: Literal["constant", "cosine"] = "constant"
    lr_warmup_steps: Whole = 0
    lr_warmup_steps_ratio: Share = 0.0
    min_lr_ratio: Share = 0.0
    num_cycles: Positive = 0.5
