"""Keeps every event of a run in its archive: none is acknowledged before it is on the disk."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from services.collector.archive import FOLDER, Retention, Segments
from shared.bus import Bus
from shared.config import Config
from shared.errors import ArchiveError, FidelityError, StoreUnavailable
from shared.events import EVENTS, BlobRef, CallRecorded, GroupCompleted, Message, Trajectory, encode
from shared.store.blobs import Blobs

log = logging.getLogger(__name__)
T = TypeVar("T")

DURABLE = "archive"
KINDS = EVENTS
"""What is archived: all but commands."""
CONCURRENCY = 128
"""Messages that wait for one write, at most, of each stream: the disk takes as long for one as for many."""
EXPIRE_S = 30.0
RETRY_S = 1.0
"""Pause after what failed (the disk is full, the store away). Messages wait meanwhile; the bus keeps them."""
_MB, _DAY_S = 1_000_000, 86400.0


def open_archive(config: Config, bus: Bus, blobs: Blobs, folder: Path) -> Archiver | None:
    """The archiver of a run, by its settings; None where they want no archive.

    Args:
        folder: the run folder.
    """
    wanted = config.collector
    if not wanted.archive:
        return None
    retention = Retention(wanted.archive_mb * _MB, wanted.archive_days * _DAY_S)
    return Archiver(config.run.id, bus, blobs, Segments(folder / FOLDER, retention))


class Archiver:
    """The archive of one run, as one collector writes it."""

    def __init__(self, run_id: str, bus: Bus, blobs: Blobs, segments: Segments) -> None:
        self._run_id, self._bus, self._blobs, self._segments = run_id, bus, blobs, segments
        self._waiting: list[tuple[bytes, asyncio.Future[None]]] = []
        self._filled = asyncio.Event()
        self._stopping = False
        self._expires = 0.0
        self._task: asyncio.Task[None] | None = None

    @property
    def size(self) -> int:
        """Size of the archive, as it was less than a minute ago or at the last message."""
        return self._segments.total

    async def start(self) -> None:
        """Begins to archive; returns when the subscription stands."""
        self._task = asyncio.create_task(self._work())
        await self._bus.consume(DURABLE, KINDS, self.keep, run_id=self._run_id, concurrency=CONCURRENCY)

    async def stop(self) -> None:
        """Ends after the batch that is being written."""
        self._stopping = True
        self._filled.set()
        if self._task is not None:
            await self._task

    async def keep(self, message: Message) -> None:
        """Returns when a message is on the disk, with what it refers to: a group that travels by reference is kept with its
        trajectories, a call after its images."""
        if isinstance(message, GroupCompleted):
            message = await self._whole(message)
        if isinstance(message, CallRecorded):
            for medium in message.media:
                await self._keep_medium(medium.sha256)
        kept: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((encode(message), kept))
        self._filled.set()
        await kept

    async def backlog(self) -> int:
        """Messages of the run that no collector has archived yet.

        Raises:
            BusUnavailable: the bus does not answer.
        """
        return await self._bus.backlog(DURABLE, KINDS, run_id=self._run_id)

    async def _whole(self, group: GroupCompleted) -> GroupCompleted:
        if group.ref is None:
            return group
        try:
            body = await self._insist(partial(self._blobs.get, group.ref), f"group {group.group_id}")
        except FidelityError as e:
            log.error("group %s is archived without its trajectories: %s", group.group_id, e)
            return group
        return msgspec.structs.replace(group, trajectories=msgspec.json.decode(body, type=list[Trajectory]))

    async def _keep_medium(self, sha256: str) -> None:
        if self._segments.has_medium(sha256):
            return
        what, ref = f"image {sha256}", BlobRef(key=sha256, size=0, sha256=sha256)
        if not await self._insist(partial(self._blobs.has, ref), what):
            log.error("%s is not archived: the store lost it", what)  # it expired, or the store was wiped: nobody puts it back
            return
        body = await self._insist(partial(self._blobs.get, ref), what)
        await self._insist(partial(asyncio.to_thread, self._segments.keep_medium, sha256, body), what)

    async def _insist(self, step: Callable[[], Awaitable[T]], what: str) -> T:
        """Does a step again until the disk, or the store, lets it succeed.

        Raises:
            ArchiveError: the service ended before; nothing of it was acknowledged.
        """
        while not self._stopping:
            try:
                return await step()
            except (OSError, StoreUnavailable) as e:
                log.error("%s cannot be archived yet, and waits: %s", what, e)
            await asyncio.sleep(RETRY_S)
        raise ArchiveError(f"the service ended before {what} could be archived")

    async def _work(self) -> None:
        while not self._stopping:
            await self._filled.wait()
            self._filled.clear()
            batch, self._waiting = self._waiting, []
            if batch:
                await self._write(batch)
            if time.monotonic() > self._expires:
                self._expires = time.monotonic() + EXPIRE_S
                await asyncio.to_thread(self._expire)

    async def _write(self, batch: list[tuple[bytes, asyncio.Future[None]]]) -> None:
        lines = [line for line, _ in batch]
        try:
            await self._insist(partial(asyncio.to_thread, self._segments.append, lines), f"{len(lines)} messages")
        except ArchiveError as e:
            log.error("%s; what was not acknowledged comes again", e)
            return
        for _, kept in batch:
            if not kept.done():  # its handler may have been cancelled; the message will come again
                kept.set_result(None)

    def _expire(self) -> None:
        try:
            for file in self._segments.expire(time.time()):
                log.info("deleted %s: collector.archive_mb and archive_days keep no more", file.name)
        except OSError as e:
            log.warning("old files of the archive could not be deleted: %s", e)
