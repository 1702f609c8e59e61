"""A step's metrics, under veRL's names where it has one. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from services.trainer.ports import Update
from services.trainer.samples import Sample
from services.trainer.step import Gathered


def step_metrics(
    step: int, gathered: Gathered, samples: Sequence[Sample], update: Update | None, timings: Mapping[str, float]
) -> dict[str, float]:
    """What one training step came to.

    Args:
        step: from 1.
        gathered: its rollouts.
        samples: that were trained on.
        update: what the learner did; None when there was nothing to train on.
        timings: seconds per part of the step.
    """
    rewards = [vote.reward for group in gathered.groups for vote in group]
    metrics: dict[str, float] = {"training/global_step": step, "training/skipped": float(update is None)}
    if update is not None:
        metrics |= update.metrics | {"logprob_gap/max": update.logprob_gap}
        metrics |= {f"critic/{kind}/{name}": value for kind in ("rewards", "score") for name, value in spread(rewards).items()}
        metrics |= {f"response_length/{name}": value for name, value in spread(len(s.mask) for s in samples).items()}
        metrics |= {f"prompt_length/{name}": value for name, value in spread(s.prompt_len for s in samples).items()}
    metrics |= {"trajectories": len(rewards), "rows": len(samples), "tokens_trained": sum(s.trained for s in samples)}
    metrics |= {"groups_started": gathered.started, "groups_completed": len(gathered.kept)}
    metrics |= {f"groups_discarded/{reason}": count for reason, count in gathered.drops.items()}
    return metrics | {f"timing_s/{part}": seconds for part, seconds in timings.items()}


def spread(values: Iterable[float]) -> dict[str, float]:
    """Mean, max and min of at least one value."""
    items = list(values)
    return {"mean": sum(items) / len(items), "max": max(items), "min": min(items)}
