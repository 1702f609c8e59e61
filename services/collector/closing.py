"""Closes groups, and sees their messages through to the bus."""

from __future__ import annotations

import asyncio
import logging
import time

import msgspec

from services.collector.groups import GroupInfo, decide, read_slots
from shared.bus import Bus
from shared.config import CollectorConfig
from shared.errors import Rejected
from shared.events import GroupCompleted, GroupDiscarded, Message, decode, encode
from shared.store.assembly import Assembly, GroupState
from shared.store.blobs import Blobs

log = logging.getLogger(__name__)


class Closing:
    """Groups of one run. `filled` is set whenever this process put a message in the outbox."""

    def __init__(self, config: CollectorConfig, bus: Bus, assembly: Assembly, blobs: Blobs) -> None:
        self._config = config
        self._bus = bus
        self._assembly = assembly
        self._blobs = blobs
        self.filled = asyncio.Event()

    async def close_if_ready(self, group_id: str, *, overdue: bool = False) -> None:
        """Decides on a group with what is settled of it; of any number of collectors that do so, one closes it."""
        while True:
            state = await self._assembly.group(group_id)
            message = self._decide(state, overdue)
            if message is None:
                return
            done = await self._assembly.close_group(group_id, await self._body(message), state)
            if done == "closed":
                log.info("group %s: %s %s", group_id, type(message).__name__, message.outcomes)
                self.filled.set()
            if done != "changed":  # by an attempt that was settled while the message was made
                return

    async def close_overdue(self) -> None:
        """Closes the groups whose time is up."""
        for group_id in await self._assembly.overdue(time.time() - self._config.deadline_s):
            await self.close_if_ready(group_id, overdue=True)

    async def relay(self) -> None:
        """Publishes what is in the outbox, and only then takes it out: done twice, the bus drops the second by its id.

        A group that is on the bus already is not published again: one is closed anew when a wiped store is rebuilt.
        """
        self.filled.clear()
        for entry, body in await self._assembly.outbox():
            message = decode(body)
            try:
                if not await self._is_told(message):
                    await self._bus.publish(message)
            except Rejected as e:
                log.error("a group's message stays in the outbox: %s; lower collector.inline_bytes", e)
                continue
            await self._assembly.published(entry)

    async def _is_told(self, group: Message) -> bool:
        told = [await self._bus.keys(kind, group.run_id, group.key) for kind in (GroupCompleted, GroupDiscarded)]
        return any(told)

    def _decide(self, state: GroupState, overdue: bool) -> GroupCompleted | GroupDiscarded | None:
        if state.closed or state.info is None:
            return None
        info = msgspec.json.decode(state.info, type=GroupInfo)
        return decide(info, read_slots(state.settled), self._config, overdue=overdue)

    async def _body(self, message: GroupCompleted | GroupDiscarded) -> bytes:
        body = encode(message)
        if isinstance(message, GroupDiscarded) or len(body) <= self._config.inline_bytes:
            return body
        ref = await self._blobs.put(msgspec.json.encode(message.trajectories))
        return encode(msgspec.structs.replace(message, trajectories=[], ref=ref))
