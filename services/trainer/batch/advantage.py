"""Rewards of a group to one advantage per call, and the weight that every trajectory has in the loss.

All pure, in float64. A trajectory votes once in its group, however many rows its calls were merged into and however many tokens
it has. `docs/credit.md` has the formulas and where they come from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from services.trainer.batch.samples import Sample, Vote
from shared.config import AlgorithmConfig
from shared.events import Span

EPSILON = 1e-6
"""Added to the deviation of a group, as in veRL."""

WHITENING_EPSILON = 1e-8
"""Added to the variance of a batch, as in veRL."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """What the calls of one trajectory are compared with.

    Attributes:
        level: taken from the shaped reward; made of whole rewards, so that it is the same for all calls of the trajectory.
        scale: that the difference is divided by; infinite where there is nothing to be learned.
    """

    level: float
    scale: float


def baselines(rewards: Sequence[float], config: AlgorithmConfig) -> list[Baseline]:
    """The baseline of each trajectory of a group.

    ``grpo``: the mean of the group's rewards; the scale is their deviation plus epsilon, or 1 without
    `norm_adv_by_std_in_grpo`. The deviation is the unbiased one, as in veRL. ``rloo``: the mean of the others' rewards, and
    no scale. ``reinforce_plus_plus_baseline``: the mean, and no scale. A group of one (which veRL would give its raw reward)
    or of equal rewards has nothing to compare.

    Args:
        rewards: one per trajectory (G,), finite; each counts once.
        config: names the estimator.
    """
    size, total = len(rewards), math.fsum(rewards)
    if len(set(rewards)) < 2:
        return [Baseline(r, math.inf) for r in rewards]
    if config.adv_estimator == "rloo":
        return [Baseline((total - r) / (size - 1), 1.0) for r in rewards]
    mean = total / size
    if config.adv_estimator == "reinforce_plus_plus_baseline":
        return [Baseline(mean, 1.0)] * size
    deviation = math.sqrt(math.fsum((r - mean) ** 2 for r in rewards) / (size - 1))
    return [Baseline(mean, deviation + EPSILON if config.norm_adv_by_std_in_grpo else 1.0)] * size


def call_advantages(reward: float, spans: Sequence[Span], baseline: Baseline, gamma: float) -> list[float]:
    """The advantage of each call: ``A_t = (gamma^after_t r - level) / scale``.

    Args:
        reward: of the trajectory.
        spans: calls of the trajectory (S,).
        baseline: of the trajectory.
        gamma: discount per later call, in (0, 1].

    Returns:
        One advantage per span (S,).
    """
    return [(gamma**span.after * reward - baseline.level) / baseline.scale for span in spans]


def loss_weights(trained: Sequence[int], config: AlgorithmConfig) -> list[float]:
    """The share of the batch's loss that each token of a trajectory has: the loss is the sum of all tokens' terms times these.

    With D_i trained tokens of trajectory i, N their sum and B the trajectories that have any: ``trajectory`` gives
    ``1 / (B D_i)``, ``token-mean`` gives ``1 / N``, ``constant`` gives ``1 / (B loss_scale_factor)``.

    Args:
        trained: trained tokens of each trajectory (T,); one without any gets 0.
        config: names the weighting.

    Returns:
        One weight per trajectory (T,).
    """
    tokens, voters = sum(trained), sum(d > 0 for d in trained)
    if config.loss_weighting == "token-mean":
        return [1 / tokens if d else 0.0 for d in trained]
    divisors = [config.loss_scale_factor if config.loss_weighting == "constant" else d for d in trained]
    return [1 / (voters * by) if d else 0.0 for d, by in zip(trained, divisors, strict=True)]


def credit(groups: Sequence[Sequence[Vote]], config: AlgorithmConfig) -> list[Sample]:
    """The samples of all groups that train at least one token, each span with its advantage, each sample with its trajectory.

    A trajectory without trained tokens still counts in its group's baseline.
    """
    votes = [(number, vote) for number, group in enumerate(groups) for vote in group]
    compared = [b for group in groups for b in baselines([v.reward for v in group], config)]
    samples = [
        replace(s, advantages=call_advantages(vote.reward, s.spans, baseline, config.gamma), group=group, trajectory=number)
        for number, ((group, vote), baseline) in enumerate(zip(votes, compared, strict=True))
        for s in vote.samples
        if s.trained
    ]
    return whitened(samples) if config.adv_estimator == "reinforce_plus_plus_baseline" else samples


def whitened(samples: Sequence[Sample]) -> list[Sample]:
    """Samples with their advantages shifted and scaled to mean 0 and deviation 1 over all trained tokens, as veRL does it."""
    terms = [(a, span.end - span.start) for s in samples for span, a in zip(s.spans, s.advantages, strict=True)]
    tokens = sum(size for _, size in terms)
    if tokens < 2:
        return list(samples)
    mean = math.fsum(a * size for a, size in terms) / tokens
    variance = math.fsum((a - mean) ** 2 * size for a, size in terms) / (tokens - 1)
    scale = math.sqrt(variance + WHITENING_EPSILON)
    return [replace(s, advantages=[(a - mean) / scale for a in s.advantages]) for s in samples]
