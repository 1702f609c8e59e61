"""Trajectories, and the groups that share a baseline."""

from __future__ import annotations

import msgspec

from shared.events.base import Count, Hex, Id, Message, Number, Purpose, RolloutMessage, Size, Version
from shared.events.calls import Media

LATE = "late"
"""Reason of an attempt that is complete only after its group was closed."""


class TokenCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Where sampled tokens went: ``sampled == trained + masked + dropped``, always.

    Attributes:
        sampled: tokens in the completions of all recorded calls, and the one that each measured `replay_gap` costs.
        trained: of them, those with response_mask 1 in a row.
        masked: of them, those in a row with response_mask 0, or of calls that are not trained by rule.
        dropped: of them, those of attempts and groups that were discarded.
        reasons: tokens per reason of masking or dropping.
    """

    sampled: Size = 0
    trained: Size = 0
    masked: Size = 0
    dropped: Size = 0
    reasons: dict[str, Size] = {}


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """The sampled tokens of one call that a row trains: ``ids[start:end]``.

    Attributes:
        seq: number of the call.
        start: place of its first sampled token.
        end: place after its last one.
        after: trained calls of the trajectory with higher numbers, in whatever row: T - t of a discounted reward.
    """

    seq: Number
    start: Size
    end: Size
    after: Count


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One training sequence: a root-to-leaf path of calls, L tokens.

    Attributes:
        prompt_len: tokens before the first sampled one; the response is the rest.
        ids: packed uint32 (L,).
        response_mask: packed uint8 (L,), 1 on tokens that this row trains.
        logprobs: packed float32 (L,), the engine's at sampling time, 0 where response_mask is 0.
        spans: where response_mask is 1, call by call, in the order of their places.
        media: images among the ids, in the order of their places; `start` counts from the row's first token.
        experts: `CallRecorded.experts` of the row's last call.
    """

    prompt_len: Size
    ids: bytes
    response_mask: bytes
    logprobs: bytes
    spans: list[Span]
    media: list[Media] = []
    experts: Hex = ""


class Trajectory(msgspec.Struct, frozen=True, kw_only=True):
    """One rollout as the trainer sees it. It has one vote in its group, however many rows it has."""

    rollout_id: Id
    attempt: Number
    task: str
    harness: str
    reward: float
    timed_out: bool = False
    calls: Count = 0
    tokens: TokenCounts = TokenCounts()
    min_version: Version = 0
    max_version: Version = 0
    rows: list[Row] = []


class TrajectoryAssembled(RolloutMessage, frozen=True, kw_only=True, tag="trajectory.assembled"):
    """All calls of an attempt were found and made into rows.

    Attributes:
        reward: of the trajectory.
        calls: number of calls that could be used.
        rows: number of rows that they were merged into.
        tokens: where its sampled tokens went.
        untrained: numbers of the calls that are not trained, per reason.
    """

    reward: float
    calls: Count
    rows: Count
    tokens: TokenCounts
    untrained: dict[str, list[Number]] = {}


class TrajectoryDiscarded(RolloutMessage, frozen=True, kw_only=True, tag="trajectory.discarded"):
    """An attempt gives nothing to train on; `reason` is a class name from `shared.errors`, or a policy's name.

    One with the reason `late` may follow another message about the same attempt: its group was closed meanwhile. Whether the
    group counts the attempt all the same is in `GroupMessage.attempts`.
    """

    reason: str
    detail: str = ""
    tokens: TokenCounts = TokenCounts()

    @property
    def event_id(self) -> str:
        return f"{super().event_id}-{LATE}" if self.reason == LATE else super().event_id


class BlobRef(msgspec.Struct, frozen=True, kw_only=True):
    """Where a large body lies in the store: key, size in bytes, sha256 hex."""

    key: str
    size: Size
    sha256: Hex


class GroupMessage(Message, frozen=True, kw_only=True):
    """A message about one group.

    Attributes:
        tokens: over all `attempts`.
        outcomes: number of rollouts per outcome (`finished`, or the reason of failure).
        attempts: numbers of the attempts that were complete when it was closed, by rollout id. What comes later is `late`.
    """

    group_id: Id
    purpose: Purpose = "train"
    task: str = ""
    tokens: TokenCounts = TokenCounts()
    outcomes: dict[str, Count] = {}
    attempts: dict[str, list[Number]] = {}

    @property
    def key(self) -> str:
        return self.group_id

    @property
    def event_id(self) -> str:
        return f"group-{self.group_id}"


class GroupCompleted(GroupMessage, frozen=True, kw_only=True, tag="group.completed"):
    """A group is ready to be trained on (or scored). Exactly one of completed or discarded is published per group.

    Attributes:
        trajectories: in the order of their rollout ids; empty when `ref` is set.
        ref: claim check to a body that decodes as ``list[Trajectory]``, for groups over 1 MB.
    """

    trajectories: list[Trajectory] = []
    ref: BlobRef | None = None


class GroupDiscarded(GroupMessage, frozen=True, kw_only=True, tag="group.discarded"):
    """A group cannot be trained on. `reason`: `no_variance`, `too_few`, `deadline`, ..."""

    reason: str
    detail: str = ""
