"""What a collector does with a message: keeps its part, settles the attempt that it completes, closes the group.

A handler first makes its message's effect durable and then does whatever has become possible by it. Every step may be done
again, and by any collector: after a kill, the redelivered message goes on where the first delivery was broken off.
"""

from __future__ import annotations

import logging
import time

import msgspec

from services.collector.closing import Closing
from services.collector.groups import GroupInfo
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
)
from shared.ids import check_id, session_id
from shared.store.assembly import Assembly
from shared.store.blobs import Blobs

log = logging.getLogger(__name__)

ROLLOUTS = (RolloutScheduled, SessionSealed, RolloutFinished, RolloutTimedOut, RolloutFailed)
"""What is handled beside calls; what ends attempts comes last."""


class Handling:
    """Handles messages of one run.

    Attributes:
        late_calls: records that came after their attempt was settled; they are ignored.
    """

    def __init__(self, config: CollectorConfig, bus: Bus, assembly: Assembly, blobs: Blobs) -> None:
        self._assembly = assembly
        self._settling = Settling(config, bus, assembly)
        self.closing = Closing(config, bus, assembly, blobs)
        self.late_calls = 0

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
                await self._keep_call(session, message)
            case SessionSealed():
                await self._assembly.put_part(session, "sealed", encode(message))
            case RolloutScheduled():
                await self._open_group(message)
            case RolloutFinished() | RolloutTimedOut() | RolloutFailed():
                await self._open_group(message)
                await self._assembly.put_part(session, "outcome", encode(message))
                if isinstance(message, RolloutFailed) and message.final:
                    await self._assembly.end_rollout(message.group_id, message.rollout_id, message.attempt)
        if await self._settling.settle(message):
            await self.closing.close_if_ready(message.group_id)

    async def _keep_call(self, session: str, call: CallRecorded) -> None:
        is_settled = await self._assembly.is_settled(call.group_id, call.rollout_id, call.attempt)
        kept = await self._assembly.put_call(session, call.seq, encode(call))
        if kept == "conflict":
            log.warning("call %d of session %s was recorded twice with different content", call.seq, session)
        elif kept == "new" and is_settled:
            self.late_calls += 1
            log.warning("call %d of session %s came after its attempt was settled; ignored", call.seq, session)

    async def _open_group(self, message: RolloutScheduled | RolloutFinished | RolloutTimedOut | RolloutFailed) -> None:
        info = GroupInfo(
            run_id=message.run_id,
            group_id=message.group_id,
            size=message.group_size,
            purpose=message.purpose,
            task=message.task,
        )
        await self._assembly.open_group(message.group_id, msgspec.json.encode(info), time.time())


def _session_of(message: RolloutMessage) -> str:
    """The session of the attempt that a message is about.

    Raises:
        Rejected: the message contradicts itself.
    """
    try:
        check_id(message.group_id, "group id")
        session = session_id(message.rollout_id, message.attempt)
    except InvalidId as e:
        raise Rejected(str(e)) from None
    if message.attempt < 1:
        raise Rejected(f"{message.event_id}: attempts count from 1")
    if isinstance(message, CallRecorded | SessionSealed) and message.session_id != session:
        raise Rejected(f"{message.event_id} is of session {message.session_id}, but its rollout and attempt make {session}")
    if isinstance(message, CallRecorded) and message.seq < 1:
        raise Rejected(f"{message.event_id}: calls count from 1")
    if isinstance(message, RolloutScheduled | RolloutFinished | RolloutTimedOut | RolloutFailed) and message.group_size < 1:
        raise Rejected(f"{message.event_id}: a group has at least one rollout, not {message.group_size}")
    return session
