"""Every message on the bus. Events are past tense, commands imperative; on the wire they are JSON with a `type` tag.

New fields keep the version (give them a default); a changed meaning is a new version of the subject.
Arrays of token ids, masks and log-probabilities are packed (`shared.packing`) and travel as base64.
"""

from __future__ import annotations

from shared.events.base import Message, Purpose, RolloutMessage
from shared.events.calls import CallRecorded, Media, SessionSealed
from shared.events.groups import (
    LATE,
    BlobRef,
    GroupCompleted,
    GroupDiscarded,
    GroupMessage,
    Row,
    Span,
    TokenCounts,
    Trajectory,
    TrajectoryAssembled,
    TrajectoryDiscarded,
)
from shared.events.registry import COMMANDS, EVENTS, MESSAGES, decode, encode, tag_of
from shared.events.rollouts import (
    Durations,
    OutcomeMessage,
    RolloutCancel,
    RolloutFailed,
    RolloutFinished,
    RolloutScheduled,
    RolloutStart,
    RolloutStarted,
    RolloutTimedOut,
    Stage,
    Used,
)
from shared.events.run import RunEvaluated, RunFinished, RunStaged, RunStart, RunStepped
from shared.events.tasks import (
    SynthStart,
    TaskAccepted,
    TaskBuilt,
    TaskMessage,
    TaskProposed,
    TaskRefined,
    TaskRejected,
    TaskTried,
)
from shared.events.weights import WeightsFailed, WeightsLoaded, WeightsPublished

__all__ = [
    "COMMANDS",
    "EVENTS",
    "LATE",
    "MESSAGES",
    "BlobRef",
    "CallRecorded",
    "Durations",
    "GroupCompleted",
    "GroupDiscarded",
    "GroupMessage",
    "Media",
    "Message",
    "OutcomeMessage",
    "Purpose",
    "RolloutCancel",
    "RolloutFailed",
    "RolloutFinished",
    "RolloutMessage",
    "RolloutScheduled",
    "RolloutStart",
    "RolloutStarted",
    "RolloutTimedOut",
    "Row",
    "RunEvaluated",
    "RunFinished",
    "RunStaged",
    "RunStart",
    "RunStepped",
    "SessionSealed",
    "Span",
    "Stage",
    "SynthStart",
    "TaskAccepted",
    "TaskBuilt",
    "TaskMessage",
    "TaskProposed",
    "TaskRefined",
    "TaskRejected",
    "TaskTried",
    "TokenCounts",
    "Trajectory",
    "TrajectoryAssembled",
    "TrajectoryDiscarded",
    "Used",
    "WeightsFailed",
    "WeightsLoaded",
    "WeightsPublished",
    "decode",
    "encode",
    "tag_of",
]
