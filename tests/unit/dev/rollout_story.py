"""What is told of a rollout from its beginning to its end."""

from __future__ import annotations

from typing import Any

from shared.events import RolloutFailed, RolloutFinished, RolloutScheduled, TokenCounts, TrajectoryAssembled

ABOUT: dict[str, Any] = {"run_id": "run1", "rollout_id": "run1-g-r0", "group_id": "g"}


def one_rollout() -> list[RolloutScheduled | RolloutFailed | RolloutFinished | TrajectoryAssembled]:
    """Told of a rollout whose second attempt ended well."""
    named: dict[str, Any] = {"group_size": 1, "task": "t", "harness": "h"}
    return [
        RolloutScheduled(**ABOUT, **named),
        RolloutFailed(**ABOUT, **named, reason="EngineError", final=False),
        RolloutFinished(**ABOUT, **named, attempt=2, reward=1.0),
        TrajectoryAssembled(**ABOUT, attempt=2, reward=1.0, calls=1, rows=1, tokens=TokenCounts()),
    ]
