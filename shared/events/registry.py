"""All message types, and the way between them and JSON bytes."""

from __future__ import annotations

import msgspec

from shared.events.base import Message
from shared.events.calls import CallRecorded, SessionSealed
from shared.events.groups import GroupCompleted, GroupDiscarded, TrajectoryAssembled, TrajectoryDiscarded
from shared.events.rollouts import (
    RolloutCancel,
    RolloutFailed,
    RolloutFinished,
    RolloutScheduled,
    RolloutStart,
    RolloutStarted,
    RolloutTimedOut,
)
from shared.events.run import RunEvaluated, RunFinished, RunStaged, RunStart, RunStepped
from shared.events.tasks import SynthStart, TaskAccepted, TaskBuilt, TaskProposed, TaskRefined, TaskRejected, TaskTried
from shared.events.weights import WeightsFailed, WeightsLoaded, WeightsPublished

COMMANDS: tuple[type[Message], ...] = (RunStart, RolloutStart, RolloutCancel, SynthStart)
EVENTS: tuple[type[Message], ...] = (
    RunStaged, RunStepped, RunEvaluated, RunFinished,
    RolloutScheduled, RolloutStarted, RolloutFinished, RolloutTimedOut, RolloutFailed,
    CallRecorded, SessionSealed, TrajectoryAssembled, TrajectoryDiscarded, GroupCompleted, GroupDiscarded,
    WeightsPublished, WeightsLoaded, WeightsFailed, TaskProposed, TaskRejected, TaskBuilt, TaskTried, TaskRefined, TaskAccepted,
)  # fmt: skip
MESSAGES: tuple[type[Message], ...] = COMMANDS + EVENTS

_BY_TAG = {str(t.__struct_config__.tag): t for t in MESSAGES}
_encoder = msgspec.json.Encoder()
_decoders = {tag: msgspec.json.Decoder(t) for tag, t in _BY_TAG.items()}


class _Tagged(msgspec.Struct):
    type: str


_tag_decoder = msgspec.json.Decoder(_Tagged)


def tag_of(kind: type[Message]) -> str:
    """The wire tag of a message type: `call.recorded`."""
    return str(kind.__struct_config__.tag)


def encode(message: Message) -> bytes:
    """The message as JSON bytes."""
    return _encoder.encode(message)


def decode(data: bytes) -> Message:
    """The message that `data` holds.

    Raises:
        msgspec.ValidationError: the type is unknown, or a field is missing, of a wrong type or beyond its bounds.
        msgspec.DecodeError: it is not JSON, or JSON that no memory should be spent on.
    """
    try:
        tag = _tag_decoder.decode(data).type
        if tag not in _decoders:
            raise msgspec.ValidationError(f"unknown message type {tag!r}")
        return _decoders[tag].decode(data)
    except msgspec.DecodeError:
        raise
    except (RecursionError, ValueError) as e:  # arrays nested without end, bytes that are no text, numbers of many digits
        raise msgspec.DecodeError(str(e)) from e
