"""What a run left behind: the engine's account, the harnesses' account, and what is on the bus."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from shared.bus import Bus
from shared.events import (
    CallRecorded,
    GroupCompleted,
    GroupDiscarded,
    Message,
    RolloutStart,
    SessionSealed,
    Trajectory,
    TrajectoryAssembled,
    TrajectoryDiscarded,
)
from shared.packing import pack_ids
from shared.store.blobs import Blobs

Closed = GroupCompleted | GroupDiscarded
Told = TrajectoryAssembled | TrajectoryDiscarded
M = TypeVar("M", bound=Message)
_NUMBER = re.compile(r"call (\d+) was answered")


class Sampled(NamedTuple):
    """What the engine saw and sampled in a call, as packed ids."""

    prompt: bytes
    completion: bytes


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a run left behind.

    Attributes:
        sizes: rollouts of each group that was asked for.
        sampled: calls that the engine finished, by their numbers.
        received: numbers of the replies that reached a session's harness whole.
        closed: messages that closed groups, as the stream has them.
        told: what became of attempts; that one was late, if it was, comes last.
        records: calls as they were recorded.
        sealed: sealings of sessions.
        dead: messages that somebody gave up, with the reason.
    """

    sizes: dict[str, int]
    sampled: dict[int, Sampled]
    received: dict[str, list[int]]
    closed: list[Closed]
    told: list[Told]
    records: list[CallRecorded]
    sealed: list[SessionSealed]
    dead: list[str]


async def collect(commands: list[RolloutStart], engine_log: Path, run_folder: Path, bus: Bus, blobs: Blobs) -> Evidence:
    """Reads everything."""
    run = run_folder.name
    completed = [await _inline(m, blobs) for m in await _kept(bus, GroupCompleted, run)]
    return Evidence(
        sizes={c.group_id: c.group_size for c in commands},
        sampled=read_engine(engine_log.read_text()),
        received={f.parent.name: read_harness(f.read_text()) for f in run_folder.glob("rollouts/*/agent.log")},
        closed=[*completed, *await _kept(bus, GroupDiscarded, run)],
        told=[*await _kept(bus, TrajectoryAssembled, run), *await _kept(bus, TrajectoryDiscarded, run)],
        records=await _kept(bus, CallRecorded, run),
        sealed=await _kept(bus, SessionSealed, run),
        dead=[f"{letter.subject}: {letter.reason}" for letter in await bus.dead_letters()],
    )


async def closed_groups(bus: Bus, run: str) -> set[str]:
    """Groups that were reached."""
    return await bus.keys(GroupCompleted, run) | await bus.keys(GroupDiscarded, run)


def read_engine(log: str) -> dict[int, Sampled]:
    """Calls that the engine finished."""
    calls = [json.loads(line) for line in log.splitlines()]
    return {
        call["number"]: Sampled(pack_ids(call["prompt_token_ids"]), pack_ids(call["token_ids"]))
        for call in calls
        if call["finish_reason"] != "abort"
    }


def read_harness(log: str) -> list[int]:
    """Numbers of the replies that a harness says it got; it may have said other things."""
    return [int(number) for number in _NUMBER.findall(log)]


async def _kept(bus: Bus, kind: type[M], run: str) -> list[M]:
    return [message async for _, message in bus.replay(kind, run, "*", 0) if isinstance(message, kind)]


async def _inline(message: GroupCompleted, blobs: Blobs) -> GroupCompleted:
    if message.ref is None:
        return message
    trajectories = msgspec.json.decode(await blobs.get(message.ref), type=list[Trajectory])
    return msgspec.structs.replace(message, trajectories=trajectories, ref=None)
