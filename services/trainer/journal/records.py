"""What the journal of a run holds: everything that has to be known to go on after a trainer was killed."""

from __future__ import annotations

import msgspec

from shared.events import Purpose, TokenCounts, Trajectory

GRADED = ("finished", "timed_out")
"""Outcomes that are the policy's doing; all others are the infrastructure's."""


class Record(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """One thing that happened."""


class Opened(Record, frozen=True, kw_only=True):
    """The run began, with these settings (dotted names) that decide on what is learned from given groups."""

    settings: dict[str, str]


class Planned(Record, frozen=True, kw_only=True):
    """A group is about to be started.

    Attributes:
        name: unique within the run: `s3-g07`.
        task: task folder.
        size: number of rollouts.
        purpose: train or eval.
        seed: text that the sampling seeds are drawn from.
        version: weight version that was served then.
        position: of the task order, with this group's task handed out.
    """

    name: str
    task: str
    size: int
    purpose: Purpose
    seed: str
    version: int = 0
    position: int = 0


class Closed(Record, frozen=True, kw_only=True):
    """A group closed.

    Attributes:
        name: of the group.
        trajectories: those with a reward.
        tokens: over all attempts that count.
        outcomes: number of rollouts per outcome.
        refused: why it cannot be trained on; empty if it can.
        sessions: recording sessions of the attempts that count.
    """

    name: str
    trajectories: list[Trajectory] = []
    tokens: TokenCounts = TokenCounts()
    outcomes: dict[str, int] = {}
    refused: str = ""
    sessions: list[str] = []

    @property
    def graded(self) -> int:
        """Rollouts that ended by the policy's doing."""
        return sum(self.outcomes.get(outcome, 0) for outcome in GRADED)


class Dropped(Record, frozen=True, kw_only=True):
    """A closed group is not trained on."""

    name: str
    reason: str


class Doomed(Record, frozen=True, kw_only=True):
    """Groups that are open are not waited for any longer: when they close they are dropped for a reason."""

    names: list[str]
    reason: str


class Sealed(Record, frozen=True, kw_only=True):
    """A recording session of a training rollout ended, with so many calls that have a record and so many without."""

    session: str
    recorded: int
    unrecorded: int


class Late(Record, frozen=True, kw_only=True):
    """A recording session of a training rollout was complete only after its group was closed."""

    session: str
    tokens: TokenCounts


class Metered(Record, frozen=True, kw_only=True):
    """The engine's own count of sampled tokens was read.

    Attributes:
        count: as read, what the next reading is compared with; None once training rollouts are not counted any more.
        sampled: by training rollouts, since the last reading.
        lost: the engine was started anew, and its count with it.
    """

    count: int | None
    sampled: int = 0
    lost: bool = False


class Begun(Record, frozen=True, kw_only=True):
    """A step begins to learn from groups, in this order."""

    step: int
    groups: list[str]


class Done(Record, frozen=True, kw_only=True):
    """A step ended: its weights are served.

    Attributes:
        step: which.
        version: weight version that is served now.
        trajectories: that were trained on.
        rows: that they were made of.
        gap: largest difference of log-probs on tokens of the weights that were trained (nats); None where there were none.
        at: unix time in seconds.
        wall_s: seconds that the run has taken so far.
        metrics: as reported.
        groups: ids of those that it learned from.
    """

    step: int
    version: int
    trajectories: int
    rows: int
    gap: float | None
    at: float
    wall_s: float
    metrics: dict[str, float]
    groups: list[str] = []


class Evaluated(Record, frozen=True, kw_only=True):
    """Success on the held-out tasks was measured at a weight version; `unscored` episodes were lost."""

    label: str
    version: int
    success: float
    episodes: int
    unscored: int


class Saved(Record, frozen=True, kw_only=True):
    """The trained model of a step was written, and the run reached its end."""

    step: int


Entry = Opened | Planned | Closed | Dropped | Doomed | Sealed | Late | Metered | Begun | Done | Evaluated | Saved

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Entry)


def encode(record: Entry) -> bytes:
    """A record as bytes."""
    return _encoder.encode(record)


def decode(data: bytes) -> Entry:
    """Raises `msgspec.DecodeError` when the bytes are no record."""
    return _decoder.decode(data)
