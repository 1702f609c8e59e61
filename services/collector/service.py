"""The collector: keeps the parts of attempts as they arrive in any order, settles attempts, closes groups.

A handler first makes its message's effect durable and then does whatever has become possible by it. Every step may be done
again, and by any collector: after a kill, the redelivered message goes on where the first delivery was broken off.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec

from services.collector.closing import Closing
from services.collector.groups import GroupInfo
from services.collector.settling import Settling
from shared.bus import Bus
from shared.config import Config
from shared.errors import ForgeError, InvalidId, Rejected
from shared.events import (
    CallRecorded,
    Message,
    RolloutFailed,
    RolloutFinished,
    RolloutMessage,
    RolloutScheduled,
    RolloutStarted,
    RolloutTimedOut,
    RunEvaluated,
    RunFinished,
    RunStaged,
    RunStepped,
    SessionSealed,
    TaskAccepted,
    TaskBuilt,
    TaskProposed,
    TaskRejected,
    TaskTried,
    TrajectoryAssembled,
    WeightsLoaded,
    WeightsPublished,
    encode,
)
from shared.ids import session_id
from shared.store.assembly import Assembly
from shared.store.blobs import Blobs

log = logging.getLogger(__name__)

CONCURRENCY = 8
"""Messages that one collector handles at once, of each kind."""
RELAY_S = 0.5
"""How often the outbox is looked at for what other collectors left there; one's own is published at once."""
SWEEP_S = 2.0
"""How often overdue groups are looked for, at least."""
NEWS = (
    RunStaged, RunStepped, RunEvaluated, RunFinished, RolloutStarted, TrajectoryAssembled, WeightsPublished, WeightsLoaded,
    TaskProposed, TaskRejected, TaskBuilt, TaskTried, TaskAccepted,
)  # fmt: skip
"""Events that are for people: no service acts on them, but one has to find what is published in their place."""


class CollectorService:
    """One of any number of collectors of a run; they share the work."""

    def __init__(self, config: Config, bus: Bus, assembly: Assembly, blobs: Blobs) -> None:
        self._config = config
        self._bus = bus
        self._assembly = assembly
        self._settling = Settling(config.collector, bus, assembly)
        self._closing = Closing(config.collector, bus, assembly, blobs)
        self._stopping = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.late_calls = 0
        """Records that came after their attempt was settled; they are ignored."""

    async def start(self) -> None:
        """Begins to work; returns when the subscriptions stand."""
        closing, sweep_s = self._closing, min(SWEEP_S, self._config.collector.deadline_s / 4)
        self._tasks = [
            asyncio.create_task(self._repeat("the outbox relay", closing.relay, RELAY_S, closing.filled)),
            asyncio.create_task(self._repeat("the deadline sweep", closing.close_overdue, sweep_s, self._stopping)),
        ]
        kinds = (RolloutScheduled, RolloutFinished, RolloutTimedOut, RolloutFailed, SessionSealed)
        run = self._config.run.id
        await self._bus.consume("collector-calls", [CallRecorded], self._on_message, run_id=run, concurrency=CONCURRENCY)
        await self._bus.consume("collector-rollouts", kinds, self._on_message, run_id=run, concurrency=CONCURRENCY)
        await self._bus.consume("collector-others", NEWS, _look, run_id=run)

    async def stop(self) -> None:
        """Ends the background work once its present step is done; the handling of messages ends with the bus."""
        self._stopping.set()
        self._closing.filled.set()
        await asyncio.gather(*self._tasks)

    async def _repeat(self, name: str, step: Callable[[], Awaitable[None]], pause_s: float, hurry: asyncio.Event) -> None:
        """Does a step every `pause_s` seconds, and whenever `hurry` is set. A failed step is logged, and done again."""
        while not self._stopping.is_set():
            try:
                await step()
            except ForgeError as e:
                log.warning("%s: %s", name, e)
            except Exception:
                log.exception("%s failed", name)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await hurry.wait()

    async def _on_message(self, message: Message) -> None:
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
            await self._closing.close_if_ready(message.group_id)

    async def _keep_call(self, session: str, call: CallRecorded) -> None:
        is_settled = await self._assembly.is_settled(call.group_id, call.rollout_id, call.attempt)
        kept = await self._assembly.put_call(session, call.seq, encode(call))
        if kept == "conflict":
            raise Rejected(f"call {call.seq} of session {session} was recorded before, with different content")
        if kept == "new" and is_settled:
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


async def _look(message: Message) -> None:
    """That it could be read is all that is asked of it."""


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
