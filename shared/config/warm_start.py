"""Settings of supervised training: the warm start of a run, and `openforge sft`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from shared.config.base import Count, NonNegative, Positive, Section, Whole

Share = Annotated[float, Meta(ge=0, le=1)]


class WarmStartConfig(Section, frozen=True, kw_only=True):
    """Supervised training on what somebody did, through veRL's `sft_loss`.

    Attributes:
        rows: what to learn from; empty skips it. A file, or a folder of `openforge export`: conversations (`.jsonl`, with
            `messages` and `tools`), training rows (parquet, with `prompts`, `responses`, `response_mask`), or token rows of
            your own (parquet, with `input_ids` and `loss_mask`: lists of int, equal lengths).
        min_reward: smallest reward of an exported rollout to learn from it; without it all are.
        steps: optimizer steps.
        epochs: passes over the rows, in place of `steps`; 0 takes `steps`.
        batch: rows a step.
        lr: highest learning rate.
        lr_scheduler_type: `linear` or `cosine` from `lr` down to `min_lr_ratio` of it at the last step, or `constant`.
        lr_warmup_steps: steps in which the rate rises from 0.
        min_lr_ratio: of `lr`, at the end.
        optimizer: `module:Class` of a torch optimizer.
        val_ratio: share of the conversations that is held back, to measure the loss on; 0 for none.
        test_freq: steps between measurements of that loss; 0 measures at the beginning and the end.
        cache: folder for the result, keyed by everything it depends on; empty keeps it in the run's.
    """

    rows: str = ""
    min_reward: float | None = None
    steps: Count = 300
    epochs: NonNegative = 0.0
    batch: Count = 32
    lr: Positive = 3e-3
    lr_scheduler_type: Literal["linear", "cosine", "constant"] = "linear"
    lr_warmup_steps: Whole = 20
    min_lr_ratio: Share = 0.1
    optimizer: str = "torch.optim:AdamW"
    val_ratio: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    test_freq: Whole = 0
    cache: str = ""
