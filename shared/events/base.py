"""What every message has."""

from __future__ import annotations

import time
from typing import Literal

import msgspec

Purpose = Literal["train", "eval"]
"""`train` rollouts are learned from; `eval` ones are only scored."""


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """What every message has.

    Attributes:
        run_id: the run it belongs to.
        at: unix time in seconds at which it was made.
    """

    run_id: str
    at: float = msgspec.field(default_factory=time.time)

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

    rollout_id: str
    attempt: int = 1
    group_id: str
    purpose: Purpose = "train"

    @property
    def key(self) -> str:
        return self.rollout_id

    @property
    def event_id(self) -> str:
        tag = str(type(self).__struct_config__.tag).replace(".", "-")
        return f"{tag}-{self.rollout_id}-a{self.attempt}"
