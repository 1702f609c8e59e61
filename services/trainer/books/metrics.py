"""A step's metrics, under veRL's names where it has one. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from services.trainer.batch.samples import Sample
from services.trainer.groups.step import Gathered
from services.trainer.ports import Update


def step_metrics(
    step: int, version: int, gathered: Gathered, samples: Sequence[Sample], update: Update | None, timings: Mapping[str, float]
) -> dict[str, float]:
    """What one training step came to.

    Args:
        step: from 1.
        version: weight version that was trained.
        gathered: its rollouts.
        samples: that were trained on.
        update: what the learner did; None when there was nothing to train on.
        timings: seconds per part of the step.
    """
    rewards = [vote.reward for group in gathered.groups for vote in group]
    metrics: dict[str, float] = {"training/global_step": step, "training/skipped": float(update is None)}
    if update is not None:
        metrics |= update.metrics | _spread("staleness", (version - s.version for s in samples))
        gap = on_policy_gap(samples, update, version)
        metrics |= {} if gap is None else {"logprob_gap/max": gap}
        metrics |= _spread("critic/rewards", rewards) | _spread("critic/score", rewards)
        metrics |= _spread("response_length", (len(s.mask) for s in samples))
        metrics |= _spread("prompt_length", (s.prompt_len for s in samples))
    metrics |= {"trajectories": len(rewards), "rows": len(samples), "tokens_trained": sum(s.trained for s in samples)}
    trained = sum(vote.trained > 0 for group in gathered.groups for vote in group)
    metrics |= {"rows_per_rollout": len(samples) / trained} if trained else {}
    metrics |= {"groups_started": gathered.started, "groups_completed": len(gathered.kept)}
    metrics |= _groups_and_tokens(gathered) | _outcomes(gathered)
    metrics |= _pace(sum(len(s.ids) for s in samples), timings.get("step", 0.0))
    return metrics | {f"timing_s/{part}": seconds for part, seconds in timings.items()}


def on_policy_gap(samples: Sequence[Sample], update: Update, version: int) -> float | None:
    """Largest difference of log-probs (nats), engine and learner, where both had the same weights; None where they never had.

    Tokens of older weights differ for that reason alone, and would say nothing about fidelity.

    Args:
        samples: that were trained on (B,).
        update: of them.
        version: weight version that was trained.
    """
    gaps = [gap for s, gap in zip(samples, update.logprob_gaps, strict=True) if s.version == version]
    return max(gaps, default=None)


def _groups_and_tokens(gathered: Gathered) -> dict[str, float]:
    """Groups per reason of being dropped, and the sampled tokens of all groups that were not trained, also per reason."""
    groups = Counter(reason for _, reason in gathered.dropped)
    tokens = sum((Counter(counts.reasons) for counts in gathered.tokens), Counter[str]())
    metrics: dict[str, float] = {f"groups_discarded/{reason}": count for reason, count in groups.items()}
    metrics |= {f"tokens_untrained/{reason}": count for reason, count in tokens.items()}
    masked, dropped = (sum(getattr(counts, fate) for counts in gathered.tokens) for fate in ("masked", "dropped"))
    return metrics | {"tokens_masked": masked, "tokens_dropped": dropped}


def _pace(tokens: int, seconds: float) -> dict[str, float]:
    """Tokens that the learner saw, prompts included, and how many a second of the whole step."""
    made = {"perf/total_num_tokens": float(tokens), "perf/time_per_step": seconds}
    return made | ({"perf/throughput": tokens / seconds} if seconds else {})


def _outcomes(gathered: Gathered) -> dict[str, float]:
    """Rollouts of all groups per outcome: `finished`, `timed_out`, or the reason of failure."""
    groups = [group for group, _ in (*gathered.kept, *gathered.dropped)]
    totals = sum((Counter(group.result.outcomes) for group in groups), Counter[str]())
    return {f"rollouts/{outcome}": count for outcome, count in sorted(totals.items())}


def _spread(name: str, values: Iterable[float]) -> dict[str, float]:
    """Mean, max and min of at least one value."""
    items = list(values)
    return {f"{name}/mean": sum(items) / len(items), f"{name}/max": max(items), f"{name}/min": min(items)}
