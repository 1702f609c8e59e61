"""veRL's metrics of an update as plain numbers, named as its own trainer names them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from verl.utils.metric import Metric, reduce_metrics
from verl.utils.py_functional import rename_dict


def scalars(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Of one optimizer step: what its ranks and micro-batches say comes together as one number each."""
    named = rename_dict({name: _joined(value) for name, value in metrics.items()}, "actor/")
    named["perf/mfu/actor"] = named.pop("actor/mfu")
    return {name: float(value) for name, value in named.items()}


def mean_of_steps(steps: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Of an update of several optimizer steps: means, but the largest and smallest where the name says so, as in veRL."""
    names = dict.fromkeys(chain.from_iterable(steps))
    collected = {name: [step[name] for step in steps if name in step] for name in names}
    return {name: float(value) for name, value in reduce_metrics(collected).items()}


def _joined(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    if isinstance(value[0], Metric):
        return Metric.aggregate_dp(value)
    return np.mean(list(chain.from_iterable(value)))
