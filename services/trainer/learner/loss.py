"""The loss of a micro-batch: veRL's policy losses, divergences and aggregation, with this project's weights of tokens.

veRL's `ppo_loss` gives every row or every token one vote. A trajectory may have several rows, and is to have one vote: so each
token comes with its share of the batch's loss, which multiplies all three terms. `docs/algorithms.md` has the formulas.
"""

from __future__ import annotations

from typing import Any

from tensordict import TensorDict
from torch import Tensor
from verl.trainer.ppo.core_algos import agg_loss, get_policy_loss_fn, kl_penalty
from verl.utils.metric import AggregationType, Metric
from verl.workers.config import FSDPActorConfig
from verl.workers.utils.padding import no_padding_2_padding

from services.trainer.learner.calls import CallRows

PER_CALL = frozenset({"gspo"})
"""Losses that make one ratio out of a whole sequence."""


def policy_loss(
    config: FSDPActorConfig, model_output: dict[str, Tensor], data: TensorDict, dp_group: Any = None
) -> tuple[Tensor, dict[str, Any]]:
    """Policy loss, less the entropy bonus, plus the divergence from the reference model; and veRL's metrics of them.

    Args:
        config: of the actor.
        model_output: `log_probs` and, with an entropy bonus, `entropy`, jagged or flat.
        data: a micro-batch of (B, R) tensors: `response_mask`, `old_log_probs`, `advantages`, `loss_weights`, `calls` and,
            where they are wanted, `rollout_is_weights` and `ref_log_prob`. The losses of all micro-batches are to be summed.
        dp_group: unused; veRL passes it.
    """
    mask, weights = data["response_mask"].bool(), data["loss_weights"]
    config.global_batch_info.update(dp_size=data["dp_size"], batch_num_tokens=1)
    # What a model says of tokens that are not trained must not reach a ratio: not even 0 times infinity.
    log_prob = no_padding_2_padding(model_output["log_probs"], data).masked_fill(~mask, 0.0)
    loss, metrics = _surrogate(config, log_prob, data, mask)
    if config.entropy_coeff:
        entropy = no_padding_2_padding(model_output["entropy"], data).masked_fill(~mask, 0.0)
        bonus = _share(config, entropy * weights, mask)
        loss = loss - config.entropy_coeff * bonus
        metrics["actor/entropy_loss"] = _summed(bonus)
    if config.use_kl_loss:
        divergence = kl_penalty(log_prob, data["ref_log_prob"], config.kl_loss_type)
        kl_loss = _share(config, divergence * weights, mask)
        loss = loss + config.kl_loss_coef * kl_loss
        metrics |= {"actor/kl_loss": _summed(kl_loss), "actor/kl_coef": config.kl_loss_coef}
    return loss, metrics


def _surrogate(config: FSDPActorConfig, log_prob: Tensor, data: TensorDict, mask: Tensor) -> tuple[Tensor, dict[str, Any]]:
    """veRL's own loss of a mode. The shares ride in its importance weights, which multiply whatever it makes of a token."""
    mode = config.policy_loss.loss_mode
    weights = data["loss_weights"] * data["rollout_is_weights"] if "rollout_is_weights" in data else data["loss_weights"]
    fields = {
        "old_log_prob": data["old_log_probs"],
        "log_prob": log_prob,
        "advantages": data["advantages"],
        "rollout_is_weights": weights,
    }
    tokens = mask.sum().item()
    if mode in PER_CALL and tokens:
        rows = CallRows(mask, data["calls"])
        fields, mask = {name: rows.gather(values) for name, values in fields.items()}, rows.mask
    loss, found = get_policy_loss_fn(mode)(response_mask=mask, loss_agg_mode="token-mean", config=config, **fields)
    # veRL's means over the tokens of a micro-batch, as parts of the mean over those of the mini-batch.
    share = tokens / data["batch_num_tokens"] * data["dp_size"]
    metrics = {name: Metric(AggregationType.SUM, value * share) for name, value in found.items()}
    return loss, {**metrics, "actor/pg_loss": _summed(loss)}


def _share(config: FSDPActorConfig, values: Tensor, mask: Tensor) -> Tensor:
    total: Tensor = agg_loss(values, mask, "token-mean", **config.global_batch_info)
    return total


def _summed(value: Tensor) -> Metric:
    return Metric(AggregationType.SUM, value)
