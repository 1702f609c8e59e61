"""Tables within pages that people write: the metrics, and the reasons for which attempts of rollouts fail."""

from __future__ import annotations

from scripts.docs.markdown import summary, table
from shared import errors
from shared.watch.table import METRICS, Metric


def metrics() -> str:
    """Every metric of every service."""
    rows = [(f"`{m.name}`", m.kind, _shown_by(m), ", ".join(f"`{x}`" for x in m.labels), m.about) for m in METRICS]
    return table(("metric", "kind", "shown by", "labels", ""), rows)


def _shown_by(metric: Metric) -> str:
    return "all" if len(metric.services) > 2 else ", ".join(metric.services)


def reasons() -> str:
    """Every class of `shared.errors` that may stand as the `reason` of a rollout, and what follows from it."""
    every = (kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.ForgeError))
    kinds = [kind for kind in every if issubclass(kind, tuple(errors.POLICIES))]
    return table(("reason", "meaning", "what follows"), [(f"`{k.__name__}`", summary(k), _follows(k)) for k in kinds])


def _follows(kind: type[errors.ForgeError]) -> str:
    policy = errors.policy_of(kind)
    if policy.retry:
        return f"a new attempt, {policy.most} in all" if policy.most else "a new attempt"
    return "what the agent left is verified" if policy.grade else "no further attempt"
