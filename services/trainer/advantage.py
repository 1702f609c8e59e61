"""Rewards of a group to one advantage per call, and the weight that every trajectory has in the loss.

All pure, in float64. A trajectory votes once in its group, however many rows its calls were merged into and however many tokens
it has. `docs/credit.md` has the formulas and where they come from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from services.trainer.samples import Sample, Vote
from shared.config import AlgorithmConfig
from shared.events import Span

EPSILON = 1e-6
"""Added to the deviation, as in veRL."""


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
    no scale. A group of one (which veRL would give its raw reward) or of equal rewards has nothing to compare.

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
    """Weights of trajectories such that a mean over all trained tokens of the batch becomes the loss that is asked for.

    With D_i trained tokens of trajectory i, N their sum and B the trajectories that have any: ``trajectory`` gives
    ``N / (B D_i)``, ``token-mean`` gives 1, ``constant`` gives ``N / (B loss_scale_factor)``. The clipped loss is positively
    homogeneous in the advantage, so that such a weight can ride in it.

    Args:
        trained: trained tokens of each trajectory (T,); one without any gets 0.
        config: names the weighting.

    Returns:
        One weight per trajectory (T,).
    """
    tokens, voters = sum(trained), sum(d > 0 for d in trained)
    if config.loss_weighting == "token-mean":
        return [float(d > 0) for d in trained]
    divisors = [config.loss_scale_factor if config.loss_weighting == "constant" else d for d in trained]
    return [tokens / (voters * by) if d else 0.0 for d, by in zip(trained, divisors, strict=True)]


def weigh(groups: Sequence[Sequence[Vote]], config: AlgorithmConfig) -> list[Sample]:
    """The samples of all groups that train at least one token, each span with its advantage times its trajectory's weight.

    A trajectory without trained tokens still counts in its group's baseline.
    """
    votes = [vote for group in groups for vote in group]
    compared = [b for group in groups for b in baselines([v.reward for v in group], config)]
    weights = loss_weights([v.trained for v in votes], config)
    return [
        replace(s, advantages=[weight * a for a in call_advantages(vote.reward, s.spans, baseline, config.gamma)])
        for vote, baseline, weight in zip(votes, compared, weights, strict=True)
        for s in vote.samples
        if s.trained
    ]
