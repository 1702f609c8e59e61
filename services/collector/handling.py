"""What a collector does with a message: keeps its part, settles the attempt that it completes, closes the group.

A handler first makes its message's effect durable and then does whatever has become possible by it. Every step may be done
again, and by any collector: after a kill, the redelivered message goes on where the first delivery was broken off.
"""

from __future__ import annotations

import logging
import time
from typing import Literal

import msgspec

from services.collector.closing import Closing
from services.collector.groups import info_of
from services.collector.settling import Settling
from shared.bus import Bus
from shared.config import CollectorConfig
from shared.errors import InvalidId, Rejected
from shared.events import (
    CallRecorded,
    Message,
    RolloutFailed,
    RolloutFinished,
    RolloutMessage,
    RolloutScheduled,
    RolloutTimedOut,
    SessionSealed,
    encode,
    tag_of,
)
from shared.ids import session_id
from shared.store.assembly import Assembly, Novelty
from shared.store.blobs import Blobs
from shared.tally import Tally

log = logging.getLogger(__name__)

ROLLOUTS = (RolloutScheduled, SessionSealed, RolloutFinished, RolloutTimedOut, RolloutFailed)
"""What is handled beside calls; what ends attempts comes last."""


class Handling:
    """Handles messages of one run.

    Attributes:
        tally: by type, what came although something was there: the `same`, or `other` content; calls also `late`, after their
            attempt was settled. What was first stays.
    """

    def __init__(self, config: CollectorConfig, bus: Bus, assembly: Assembly, blobs: Blobs) -> None:
        self._assembly = assembly
        self._settling = Settling(config, bus, assembly)
        self.closing = Closing(config, bus, assembly, blobs)
        self.tally = Tally("messages about what was known")

    async def handle(self, message: Message) -> None:
        """Returns once all that follows from a message is durable.

        Raises:
            Rejected: it contradicts itself, or is none of ours.
            StoreWiped: the store has to be rebuilt first.
            StoreUnavailable, BusUnavailable: to be tried again.
        """
        if not isinstance(message, RolloutMessage):
            raise Rejected(f"the collector has no use for {message.event_id}")
        session = _session_of(message)
        match message:
            case CallRecorded():
                if not await self._keep_call(session, message):
                    return
            case SessionSealed():
                await self._keep_part(session, "sealed", message)
            case RolloutScheduled():
                await self._open_group(message)
            case RolloutFinished() | RolloutTimedOut() | RolloutFailed():
                await self._open_group(message)
                await self._keep_part(session, "outcome", message)
                if isinstance(message, RolloutFailed) and message.final:
                    await self._assembly.end_rollout(message.group_id, message.rollout_id, message.attempt)
        if group := await self._settling.settle(session):
            await self.closing.close_if_ready(group)

    async def _keep_call(self, session: str, call: CallRecorded) -> bool:
        """Whether its attempt may be complete by it; most calls come long before the outcome."""
        kept = await self._assembly.put_call(session, call.seq, encode(call))
        self._count(kept.kind, call)
        if kept.kind == "other":
            raise Rejected(f"call {call.seq} of session {session} was recorded before, with different content")
        if kept.kind == "new" and kept.settled:
            self._count("late", call)
            log.warning("call %d of session %s came after its attempt was settled; ignored", call.seq, session)
        return kept.ended

    async def _keep_part(self, session: str, part: Literal["sealed", "outcome"], message: Message) -> None:
        self._count(await self._assembly.put_part(session, part, encode(message)), message)

    def _count(self, how: Novelty | Literal["late"], message: Message) -> None:
        if how != "new":
            self.tally.counts[f"{how} {tag_of(type(message))}"] += 1

    async def _open_group(self, message: RolloutScheduled | RolloutFinished | RolloutTimedOut | RolloutFailed) -> None:
        info = info_of(message)
        if await self._assembly.open_group(message.group_id, msgspec.json.encode(info), time.time()) == "other":
            raise Rejected(f"group {message.group_id} was announced before with another task, size or purpose than in {info}")


def _session_of(message: RolloutMessage) -> str:
    """The session of the attempt that a message is about.

    Raises:
        Rejected: the message contradicts itself.
    """
    try:
        session = session_id(message.rollout_id, message.attempt)
    except InvalidId as e:
        raise Rejected(str(e)) from None
    if isinstance(message, CallRecorded | SessionSealed) and message.session_id != session:
        raise Rejected(f"{message.event_id} is of session {message.session_id}, but its rollout and attempt make {session}")
    return session
