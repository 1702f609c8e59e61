"""Settings of how rollouts and updates follow each other."""

from __future__ import annotations

from typing import Literal

from shared.config.base import Section, Whole


class PaceConfig(Section, frozen=True, kw_only=True):
    """How far rollouts may run ahead of training.

    Attributes:
        mode: `sync` gathers the groups of one step and then trains on them; `async` keeps up to (max_staleness + 1) * groups
            groups under way all the time, and a step takes the first `groups` of them that closed.
        max_staleness: weight versions by which the oldest call of a group may lag behind the one that is trained; a group that
            lags more is dropped whole and replaced. With `sync`, 0 starts the groups of a step when the weights of the last
            one are served, 1 or more before the last one's update. `async` needs 1 at least.
        cancel_stale: before a push, end the rollouts of groups that would lag too much after it.
    """

    mode: Literal["sync", "async"] = "sync"
    max_staleness: Whole = 0
    cancel_stale: bool = False

    def __post_init__(self) -> None:
        if self.mode == "async" and not self.max_staleness:
            raise ValueError("max_staleness: it is 0, with which nothing can be asynchronous; set 1 or more, or mode = sync")
