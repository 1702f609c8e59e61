"""What a batch learns from, once its log-probs are known: corrected, and with a share of the loss for each token."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tensordict import TensorDict
from torch import Tensor

from services.trainer.batch.advantage import loss_weights
from services.trainer.batch.minibatch import mini_batches
from services.trainer.batch.samples import Sample
from services.trainer.learner.correction import correct
from shared.config import AlgorithmConfig, RolloutCorrectionConfig


def set_policies(batch: TensorDict, now: Tensor, reference: Tensor | None, config: RolloutCorrectionConfig) -> dict[str, float]:
    """Adds what the loss compares with: `old_log_probs`, `rollout_is_weights` and `ref_log_prob`, and rejects tokens.

    Log-probs of tokens that are not trained become 0, whatever they were.

    Args:
        batch: see `services.trainer.batch.batch.padded`.
        now: log-probs before the update (B, R).
        reference: log-probs of the reference model (B, R), if there is one.
        config: how the log-probs of sampling time are made use of.

    Returns:
        veRL's metrics, and the number of trained tokens that were rejected.
    """
    mask = batch["response_mask"]
    sampled = batch["rollout_log_probs"].to(now.dtype)
    now = now.masked_fill(mask == 0, 0.0)
    found = correct(now, sampled, mask, batch["calls"], config)
    batch["old_log_probs"] = sampled if config.bypass_mode else now
    batch["response_mask"] = found.mask
    if found.weights is not None:
        batch["rollout_is_weights"] = found.weights
    if reference is not None:
        batch["ref_log_prob"] = reference.masked_fill(mask == 0, 0.0)
    return {**found.metrics, "tokens_rejected": (mask.sum() - found.mask.sum()).item()}


def cut_steps(batch: TensorDict, samples: Sequence[Sample], size: int, config: AlgorithmConfig) -> list[list[int]]:
    """Cuts a batch into optimizer steps, and adds `loss_weights`: what each token's loss is multiplied by (B, R).

    With K steps a token has K times its share of the whole batch's loss. So it weighs the same whichever step it is in, and a
    step of average size has the loss of a batch of that size.

    Args:
        batch: with the mask of tokens that stay.
        samples: its rows.
        size: groups a step at most; 0 for all of them.
        config: names the weighting.

    Returns:
        Places of the rows of each step; steps of which no token stays are left out.
    """
    mask = batch["response_mask"]
    steps = [rows for rows in mini_batches([s.group for s in samples], size) if mask[rows].any()]
    number = {name: i for i, name in enumerate(dict.fromkeys(s.trajectory for s in samples))}
    places = torch.tensor([number[s.trajectory] for s in samples])
    trained = torch.zeros(len(number), dtype=torch.long).index_add(0, places, mask.sum(-1))
    weights = torch.tensor(loss_weights(trained.tolist(), config), dtype=torch.float64) * len(steps)
    batch["loss_weights"] = (weights[places, None] * mask).to(batch["advantages"].dtype)
    return steps
