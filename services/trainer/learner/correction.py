"""veRL's rollout correction with a call as its sequence: importance weights, and tokens that leave the batch."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_and_rejection_mask

from services.trainer.learner.calls import CallRows
from shared.config import RolloutCorrectionConfig


@dataclass(frozen=True, slots=True)
class Correction:
    """What the recorded log-probs say about a batch.

    Attributes:
        weights: importance weights of its tokens (B, R), 0 where nothing is trained; None for none.
        mask: trained tokens that stay (B, R), 0 or 1.
        metrics: veRL's, `rollout_corr/*`.
    """

    weights: Tensor | None
    mask: Tensor
    metrics: dict[str, float]


def correct(old: Tensor, sampled: Tensor, mask: Tensor, calls: Tensor, config: RolloutCorrectionConfig) -> Correction:
    """Weighs and sorts out tokens by how their log-probs (B, R) before the update differ from those at sampling time."""
    rows = CallRows(mask, calls)
    weights, kept, metrics = compute_rollout_correction_and_rejection_mask(
        old_log_prob=rows.gather(old),
        rollout_log_prob=rows.gather(sampled),
        response_mask=rows.mask.to(old.dtype),
        rollout_is=None if config.rollout_is == "none" else config.rollout_is,
        rollout_is_threshold=config.rollout_is_threshold,
        rollout_is_batch_normalize=config.rollout_is_batch_normalize,
        rollout_rs=",".join(config.tests) or None,
        rollout_rs_threshold=config.rollout_rs_threshold,
    )
    found = None if weights is None else rows.scatter(weights.batch["rollout_is_weights"])
    return Correction(found, rows.scatter(kept).to(mask.dtype), metrics)
