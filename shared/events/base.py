"""What every message has."""

from __future__ import annotations

import time
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Purpose = Literal["train", "eval"]
"""`train` rollouts are learned from; `eval` ones are only scored."""

Id = Annotated[str, Meta(pattern=r"^[A-Za-z0-9-]{1,120}\Z")]
"""As `shared.ids.check_id` takes it; in a message it is checked where the message is read."""
Hex = Annotated[str, Meta(pattern=r"^([0-9a-f]{2})*\Z")]
"""Bytes of a digest."""
Number = Annotated[int, Meta(ge=1, le=1_000_000)]
"""Counts from 1: attempts, calls, rollouts of a group. Its bound keeps a nonsense number from costing memory."""
Count = Annotated[int, Meta(ge=0, le=1_000_000)]
"""How many there are of what a `Number` counts."""
Size = Annotated[int, Meta(ge=0, le=2**53)]
"""A number of tokens, bytes, rollouts or versions."""
Version = Annotated[int, Meta(ge=-1, le=2**53)]
"""A weight version; -1 is one from before the run."""
Time = Annotated[float, Meta(ge=0, le=253_402_300_799)]
"""Unix time in seconds, up to the year 9999."""
Seconds = Annotated[float, Meta(gt=0, le=1e8)]
"""A limit of time."""
Duration = Annotated[float, Meta(ge=0, le=1e8)]
"""Seconds that something took."""


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """What every message has.

    Attributes:
        run_id: the run it belongs to.
        at: unix time in seconds at which it was made.
    """

    run_id: Id
    at: Time = msgspec.field(default_factory=time.time)

    @property
    def key(self) -> str:
        """Last token of the subject: which rollout, group, version or task it is about."""
        raise NotImplementedError

    @property
    def event_id(self) -> str:
        """Deterministic id: the bus keeps one message of an id, however often it is published."""
        raise NotImplementedError


class RolloutMessage(Message, frozen=True, kw_only=True):
    """A message about one attempt of one rollout.

    Attributes:
        rollout_id: the rollout; all its attempts share it.
        attempt: counts from 1.
        group_id: the group whose baseline it shares.
        purpose: train or eval.
    """

    rollout_id: Id
    attempt: Number = 1
    group_id: Id
    purpose: Purpose = "train"

    @property
    def key(self) -> str:
        return self.rollout_id

    @property
    def event_id(self) -> str:
        tag = str(type(self).__struct_config__.tag).replace(".", "-")
        return f"{tag}-{self.rollout_id}-a{self.attempt}"
