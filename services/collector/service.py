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
from pathlib import Path

import msgspec

from services.collector.archiver import Archiver, open_archive
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
    RolloutTimedOut,
    SessionSealed,
    encode,
)
from shared.ids import check_id, session_id
from shared.store.assembly import Assembly
from shared.store.blobs import Blobs

log = logging.getLogger(__name__)

CONCURRENCY = 8
"""Messages that one collector handles at once, of each kind."""
RELAY_S = 0.5
"""How often the outbox is looked at for what other collectors left there; one's own is published at once."""
SWEEP_S = 2.0
"""How often overdue groups are looked for, at least."""
TRIM_S = 5.0
"""How often the bus is asked to make room; it does where three quarters of it are used."""
DRAIN_S = 10.0
"""Longest that an orderly end waits for what is still on the bus."""
_DRAIN_PAUSE_S = 0.05

CALLS = (CallRecorded,)
ROLLOUTS = (RolloutScheduled, RolloutFinished, RolloutTimedOut, RolloutFailed, SessionSealed)


class CollectorService:
    """One of any number of collectors of a run; they share the work."""

    def __init__(self, config: Config, bus: Bus, assembly: Assembly, blobs: Blobs, folder: Path | None = None) -> None:
        self._config = config
        self._bus = bus
        self._assembly = assembly
        self._archiver: Archiver | None = open_archive(config, bus, blobs, folder) if folder else None
        self._settling = Settling(config.collector, bus, assembly)
        self._closing = Closing(config.collector, bus, assembly, blobs, self._archiver)
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
            asyncio.create_task(self._repeat("the making of room", self._bus.trim, TRIM_S, self._stopping)),
        ]
        run = self._config.run.id
        if self._archiver is not None:
            await self._archiver.start()
        await self._bus.consume("collector-calls", CALLS, self._on_message, run_id=run, concurrency=CONCURRENCY)
        await self._bus.consume("collector-rollouts", ROLLOUTS, self._on_message, run_id=run, concurrency=CONCURRENCY)

    async def stop(self) -> None:
        """Ends once all that was published is archived; the handling of messages ends with the bus."""
        if self._archiver is not None:
            await self._drain(self._archiver)
        self._stopping.set()
        self._closing.filled.set()
        await asyncio.gather(*self._tasks)
        if self._archiver is not None:
            await self._archiver.stop()

    async def _drain(self, archiver: Archiver) -> None:
        """Returns when nothing is left to do: the other services have ended by now, and publish no more."""
        try:
            async with asyncio.timeout(DRAIN_S):
                while await self._left(archiver):  # noqa: ASYNC110 - other processes are at it as well
                    await asyncio.sleep(_DRAIN_PAUSE_S)
        except (TimeoutError, ForgeError) as e:
            log.warning("the archive lacks the end of what was published: %s", str(e) or f"it took over {DRAIN_S:g} s")

    async def _left(self, archiver: Archiver) -> int:
        """Messages and groups that somebody is still busy with. What settles an attempt may fill the outbox, and that the
        archive: hence in this order."""
        run = self._config.run.id
        return (
            await self._bus.backlog("collector-calls", CALLS, run_id=run)
            or await self._bus.backlog("collector-rollouts", ROLLOUTS, run_id=run)
            or len(await self._assembly.outbox())
            or await archiver.backlog()
        )

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
