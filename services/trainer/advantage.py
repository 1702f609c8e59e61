"""Rewards of a group to one advantage per trajectory, and the weight that gives every trajectory one vote in the loss.

All pure. A trajectory votes once, however many rows its calls were merged into and however many tokens it has.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from services.trainer.samples import Sample, Vote

EPSILON = 1e-6
"""Added to the deviation, as in veRL."""


def group_advantages(rewards: Sequence[float], by_std: bool = True) -> list[float]:
    """GRPO: each reward of a group minus the group's mean, over its standard deviation if asked.

    The deviation is the unbiased one, as in veRL. A group of one, which has nothing to be compared with, gets 0 (veRL would
    give it its raw reward); so does a group whose rewards are equal.

    Args:
        rewards: one per trajectory (G,), finite.
        by_std: divide by the deviation (`norm_adv_by_std_in_grpo`).

    Returns:
        One advantage per trajectory (G,).
    """
    size = len(rewards)
    if size < 2:
        return [0.0] * size
    mean = math.fsum(rewards) / size
    centred = [r - mean for r in rewards]
    if not by_std:
        return centred
    deviation = math.sqrt(math.fsum(c * c for c in centred) / (size - 1))
    return [c / (deviation + EPSILON) for c in centred]


def fold_weights(advantages: Sequence[float], trained: Sequence[int]) -> list[float]:
    """Advantages such that a mean over all trained tokens of the batch becomes a mean over trajectories of their token means.

    ``A_i <- A_i * N / (B * D_i)`` with D_i trained tokens of trajectory i, N their sum and B the trajectories that have any.
    The clipped loss is positively homogeneous in the advantage, so that a weight can ride in it.

    Args:
        advantages: one per trajectory (T,).
        trained: trained tokens of each trajectory (T,); one without any gets 0.

    Returns:
        One folded advantage per trajectory (T,).
    """
    tokens, voters = sum(trained), sum(d > 0 for d in trained)
    return [a * tokens / (voters * d) if d else 0.0 for a, d in zip(advantages, trained, strict=True)]


def weigh(groups: Sequence[Sequence[Vote]], by_std: bool = True) -> list[Sample]:
    """The samples of all groups that train at least one token, each with its trajectory's folded advantage.

    A trajectory without trained tokens still counts in its group's mean and deviation.
    """
    votes = [vote for group in groups for vote in group]
    advantages = [a for group in groups for a in group_advantages([v.reward for v in group], by_std)]
    folded = fold_weights(advantages, [v.trained for v in votes])
    return [replace(s, advantage=a) for v, a in zip(votes, folded, strict=True) for s in v.samples if s.trained]
