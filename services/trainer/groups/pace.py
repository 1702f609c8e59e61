"""When groups are started, given up and trained on. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from shared.config import TrainerConfig


@dataclass(frozen=True, slots=True)
class Standing:
    """What a decision rests on.

    Attributes:
        done: steps that are done.
        open: names of the groups that are waited for, in the order of their start, each with the weight version of then.
        ready: names of the closed groups that can be trained on, in the order in which they closed.
        training: groups that are being trained on.
        started: groups that were started since the last step began, but for those that were interrupted.
        dropped: groups that were dropped since then, but for those that were interrupted.
    """

    done: int
    open: Sequence[tuple[str, int]]
    ready: Sequence[str]
    training: int
    started: int
    dropped: int


def to_start(standing: Standing, config: TrainerConfig) -> int:
    """How many groups are to be started now."""
    limit = math.ceil(config.groups * config.oversample)
    left = config.steps - standing.done
    if config.pace.mode == "async":
        room = min(config.pace.max_staleness + 1, left) * config.groups
        busy = len(standing.open) + len(standing.ready) + standing.training
        return 0 if standing.dropped >= limit else max(0, room - busy)
    ahead = bool(standing.training)
    if ahead and (not config.pace.max_staleness or left < 2):  # the step that is being trained on is not done
        return 0
    wanted = config.groups - len(standing.open) - len(standing.ready)
    return max(0, min(wanted, limit - standing.started))


def batch(standing: Standing, config: TrainerConfig) -> list[str] | None:
    """The groups of the next step; None while more are to come. Fewer than wanted, or none, when too many were dropped."""
    if standing.training:
        return None
    if config.pace.mode == "async" and len(standing.ready) >= config.groups:
        return sorted(standing.ready[: config.groups])
    return None if standing.open or to_start(standing, config) else sorted(standing.ready)


def stale_after(standing: Standing, version: int, config: TrainerConfig) -> list[str]:
    """The open groups that were started too many versions ago to be trained on once a version is served."""
    return [name for name, since in standing.open if version - since > config.pace.max_staleness]
