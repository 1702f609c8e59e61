"""Settings of what several runs share."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from shared.config.base import Section, Whole


class CapacityConfig(Section, frozen=True, kw_only=True):
    """A machine, docker engine or cluster that several runs use, and how many sandboxes they may have on it together.

    Runs that name the same pool in the same store divide its places in proportion to their `orchestrator.priority`; what one
    does not need is lent to the others.

    Attributes:
        pool: its name, the same in all these runs; empty: this run shares nothing.
        size: sandboxes at once, of all its runs together; where they differ, the smallest counts.
        url: of the Redis where its runs meet; empty takes `store.url`.
        keys: folder with the password of `orchestrator` at that server, as `store.keys`.
        lease_s: a run that is not heard of for so long has left, and its places are the others'.
    """

    pool: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{0,64}$")] = ""
    size: Whole = 0
    url: str = ""
    keys: str = ""
    lease_s: Annotated[float, Meta(ge=5)] = 30.0

    def __post_init__(self) -> None:
        """Checks what types cannot say."""
        if self.pool and not self.size:
            raise ValueError(f"the pool {self.pool!r} needs a size: sandboxes at once, of all runs that share it")
