"""The formulas of docs/algorithms.md, rollout by rollout and call by call, token by token, in float64 and without veRL."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from services.trainer.ports import LearnerSettings
from shared.config import ActorConfig, AlgorithmConfig, RolloutCorrectionConfig
from tests.contract.verl_kit import Policies
from tests.unit.trainer.trees import Call, Rollout

if TYPE_CHECKING:
    from torch import Tensor

Groups = Sequence[Sequence[Rollout]]


@dataclass
class PlainCall:
    """The tokens of a call: what four policies say of each, and its weight and whether it stays."""

    advantage: float
    new: list[Tensor]
    entropy: list[Tensor]
    old: list[float]
    sampled: list[float]
    reference: list[float]
    weight: list[float]
    stays: list[bool]


def plain_loss(made: Groups, settings: LearnerSettings, policies: Policies) -> Tensor:
    """The loss of a batch that is one optimizer step."""
    import torch

    algorithm, actor = settings.algorithm, settings.actor
    rollouts = [[_call(r, c, a, policies) for c, a in _credited(r, g, algorithm)] for g in made for r in g]
    _whiten(rollouts, algorithm)
    for call in (c for calls in rollouts for c in calls):
        correct(call, algorithm.rollout_correction)
    _normalize([c for calls in rollouts for c in calls], algorithm.rollout_correction)
    kept = [sum(sum(c.stays) for c in calls) for calls in rollouts]
    total = torch.zeros((), dtype=torch.float64)
    for calls, size in zip(rollouts, kept, strict=True):
        share = plain_share(size, kept, algorithm) if size else 0.0
        for call in calls:
            total = total + share * _call_loss(call, actor)
    return total


def plain_share(size: int, kept: Sequence[int], config: AlgorithmConfig) -> float:
    """What each token of a trajectory of `size` tokens counts."""
    voters = sum(d > 0 for d in kept)
    by = {"trajectory": voters * size, "token-mean": sum(kept), "constant": voters * config.loss_scale_factor}
    return 1 / by[config.loss_weighting]


def plain_advantage(rollout: Rollout, call: Call, rewards: Sequence[float], config: AlgorithmConfig) -> float:
    """Before whitening."""
    if len(set(rewards)) == 1:
        return 0.0
    size, mean = len(rewards), sum(rewards) / len(rewards)
    shaped = config.gamma ** rollout.after(call) * rollout.reward
    if config.adv_estimator == "rloo":
        return shaped - (size * mean - rollout.reward) / (size - 1)
    deviation = math.sqrt(sum((r - mean) ** 2 for r in rewards) / (size - 1))
    scaled = config.adv_estimator == "grpo" and config.norm_adv_by_std_in_grpo
    return (shaped - mean) / (deviation + 1e-6) if scaled else shaped - mean


def correct(call: PlainCall, config: RolloutCorrectionConfig) -> None:
    """Importance weights and rejection of a call's tokens."""
    gaps = [o - s for o, s in zip(call.old, call.sampled, strict=True)]
    if config.rollout_is != "none":
        logs = gaps if config.rollout_is == "token" else [sum(gaps)] * len(gaps)
        bounds = [float(b) for b in str(config.rollout_is_threshold).split("_")]
        ratios = [math.exp(min(max(x, -20.0), 20.0)) for x in logs]
        if len(bounds) == 1:
            call.weight = [min(r, bounds[0]) for r in ratios]
        else:
            call.weight = [r if bounds[0] <= r <= bounds[1] else 0.0 for r in ratios]
    bounds_of = str(config.rollout_rs_threshold).split(",")
    for test, bound in zip(config.tests, bounds_of * len(config.tests), strict=False):
        call.stays = [a and b for a, b in zip(call.stays, _stays(gaps, test, bound), strict=True)]


def _stays(gaps: Sequence[float], test: str, bound: str) -> list[bool]:
    measures = {"k1": lambda x: -x, "k2": lambda x: x * x / 2, "k3": lambda x: math.exp(x) - 1 - x}
    values = [measures[test[-2:]](x) for x in gaps]
    level = test[:-3]
    of_call = {"token": values, "seq_sum": [sum(values)], "seq_mean": [sum(values) / len(values)], "seq_max": [max(values)]}[
        level
    ]
    found = of_call if level == "token" else of_call * len(gaps)
    if not test.endswith("k1"):
        return [v <= float(bound) for v in found]
    *lower, upper = [float(b) for b in bound.split("_")]
    low = lower[0] if lower else 1 / upper
    return [math.log(low) <= v <= math.log(upper) for v in found]


def _credited(rollout: Rollout, group: Sequence[Rollout], config: AlgorithmConfig) -> list[tuple[Call, float]]:
    rewards = [r.reward for r in group]
    return [(c, plain_advantage(rollout, c, rewards, config)) for c in rollout.calls if c.trained]


def _call(rollout: Rollout, call: Call, advantage: float, policies: Policies) -> PlainCall:
    new, entropy = (list(values[call.start - 1 :]) for values in policies.new.says(call.full))
    old, sampled, reference = (
        p.log_probs(call.full)[call.start - 1 :].tolist() for p in (policies.old, policies.sampled, policies.reference)
    )
    return PlainCall(advantage, new, entropy, old, sampled, reference, [1.0] * len(new), [True] * len(new))


def _whiten(rollouts: Sequence[Sequence[PlainCall]], config: AlgorithmConfig) -> None:
    calls = [c for rollout in rollouts for c in rollout]
    values = [c.advantage for c in calls for _ in c.new]
    if config.adv_estimator != "reinforce_plus_plus_baseline" or len(values) < 2:
        return
    mean = sum(values) / len(values)
    variance = sum((v - mean) ** 2 for v in values) / (len(values) - 1)
    for call in calls:
        call.advantage = (call.advantage - mean) / math.sqrt(variance + 1e-8)


def _normalize(calls: Sequence[PlainCall], config: RolloutCorrectionConfig) -> None:
    """By the mean over all tokens, or over all calls."""
    if not config.rollout_is_batch_normalize or config.rollout_is == "none":
        return
    weights = [w for c in calls for w in (c.weight if config.rollout_is == "token" else c.weight[:1])]
    mean = sum(weights) / len(weights)
    for call in calls:
        call.weight = [w / mean for w in call.weight]


def _call_loss(call: PlainCall, actor: ActorConfig) -> Tensor:
    """Sum over the tokens that stay."""
    import torch

    places = [i for i, stays in enumerate(call.stays) if stays]
    ratios = [call.new[i] - call.old[i] for i in places]
    mean = sum(r.detach() for r in ratios) / len(ratios) if ratios else torch.zeros(())
    total = torch.zeros((), dtype=torch.float64)
    for i, log_ratio in zip(places, ratios, strict=True):
        if actor.policy_loss.loss_mode == "gspo":
            log_ratio = call.new[i] - call.new[i].detach() + mean
        term = call.weight[i] * _token_loss(log_ratio, call.new[i], call.old[i], call.advantage, actor)
        term = term - actor.entropy_coeff * call.entropy[i]
        if actor.use_kl_loss:
            term = term + actor.kl_loss_coef * divergence(call.new[i] - call.reference[i], actor.kl_loss_type)
        total = total + term
    return total


def _token_loss(log_ratio: Tensor, new: Tensor, old: float, a: float, actor: ActorConfig) -> Tensor:
    import torch

    low, high = actor.clip_ratio_low or actor.clip_ratio, actor.clip_ratio_high or actor.clip_ratio
    mode, ratio = actor.policy_loss.loss_mode, log_ratio.exp()
    if mode in ("vanilla", "gspo"):
        loss = torch.maximum(-a * ratio, -a * ratio.clamp(1 - low, 1 + high))
        return torch.minimum(loss, torch.tensor(-a * actor.clip_ratio_c)) if a < 0 and mode == "vanilla" else loss
    if mode == "cispo":
        return -a * ratio.detach().clamp(1 - low, 1 + high) * new
    if mode == "gpg":
        return -a * new
    if mode == "dro":
        return -(a * new - actor.policy_loss.dro_beta / 2 * log_ratio**2)
    p, q = math.exp(new.item()), math.exp(old)
    towards = p > q if a > 0 else p < q  # only a step further away is cut off
    if mode == "dppo_tv":
        distance = abs(p - q)
    else:
        distance = q * (old - new.item()) + (1 - q) * math.log((1 - q + 1e-8) / (1 - p + 1e-8))
    stays = not towards or distance <= (high if a > 0 else low)
    return -a * ratio.detach().clamp(max=actor.clip_ratio_c) * new * stays


def divergence(d: Tensor, kind: str) -> Tensor:
    """veRL's estimators of the divergence from log(new / reference), with the gradient of k2 where the name ends with +."""
    k2 = d * d / 2
    found = {"kl": d, "k1": d, "abs": d.abs(), "mse": k2, "k2": k2}.get(kind.rstrip("+"))
    value = (-d).exp() + d - 1 if found is None else found
    return k2 - k2.detach() + value.detach() if kind.endswith("+") else value
