"""All pods with some labels, from before and as they change, across breaks of the watch and deaths of the API server."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

from services.orchestrator.backends.kubernetes.api import Api, Expired
from services.orchestrator.backends.kubernetes.pods import Pod
from services.orchestrator.backends.kubernetes.podstate import AskedToEnd, seen, session_of, vanished
from services.orchestrator.backends.kubernetes.uids import Uids
from services.orchestrator.backends.port import Seen
from shared.errors import SandboxAway

log = logging.getLogger(__name__)

TICK_S = 2.0
"""How often what is late is looked for."""
BACKOFF_S = (0.2, 0.5, 1.0, 2.0, 5.0)


class Pods:
    """What is known of pods; news that change a sandbox's stage come out. Pure.

    Args:
        patience_s: how long the scheduler may find no node.
    """

    def __init__(self, patience_s: float) -> None:
        self.version = ""
        self._patience_s = patience_s
        self._pods: dict[str, Pod] = {}  # by uid
        self._told: dict[str, str] = {}

    def listed(self, pods: list[Pod], version: str, at: dt.datetime) -> Iterator[Seen]:
        """These are all that there are. Those that are missing ended unseen."""
        self.version = version
        there = {pod.metadata.uid for pod in pods}
        for uid in [uid for uid in self._pods if uid not in there]:
            yield from self._gone(self._pods[uid])
        for pod in pods:
            yield from self._is(pod, at)

    def happened(self, kind: str, pod: Pod, at: dt.datetime) -> Iterator[Seen]:
        """An event of a watch."""
        self.version = pod.metadata.resource_version
        if kind == "DELETED":
            yield from self._gone(pod)
        elif kind != "BOOKMARK":
            yield from self._is(pod, at)

    def late(self, at: dt.datetime) -> Iterator[Seen]:
        """What became of pods that wait, or should be gone, by time alone."""
        for uid, pod in list(self._pods.items()):
            if self._told.get(uid) == "schedule" or pod.metadata.deletion_timestamp:
                yield from self._is(pod, at)

    def _is(self, pod: Pod, at: dt.datetime) -> Iterator[Seen]:
        if not session_of(pod):
            return
        uid = pod.metadata.uid
        self._pods[uid] = pod
        news = seen(pod, at, self._patience_s)
        if self._told.get(uid) not in (news.stage, "ended"):
            self._told[uid] = news.stage
            yield news

    def _gone(self, pod: Pod) -> Iterator[Seen]:
        self._pods.pop(pod.metadata.uid, None)
        if self._told.pop(pod.metadata.uid, None) != "ended" and session_of(pod):
            yield vanished(pod)


async def watch(api: Api, selector: str, patience_s: float, uids: Uids) -> AsyncIterator[Seen]:
    """See `Backend.watch`; `uids` are told of all pods."""
    pods, failures = Pods(patience_s), 0
    while True:
        try:
            if not pods.version:
                found, version = await api.list(selector)
                uids.listed(found)
                for news in pods.listed(found, version, now()):
                    yield news
            async for kind, pod in _with_ticks(api.events(selector, pods.version)):
                failures = 0
                if pod is not None:
                    uids.happened(kind, pod)
                for news in pods.happened(kind, pod, now()) if pod else pods.late(now()):
                    yield news
        except Expired:
            pods.version = ""
        except SandboxAway as e:
            log.log(logging.DEBUG if failures else logging.WARNING, "%s; watching goes on when it is back", e)
            await asyncio.sleep(BACKOFF_S[min(failures, len(BACKOFF_S) - 1)])
            failures += 1


async def amended(told: AsyncIterator[Seen], amend: Callable[[Seen], Awaitable[Seen]]) -> AsyncIterator[Seen]:
    """The same news; what was asked to end is amended first, while the rest goes on."""
    queue: asyncio.Queue[Seen | BaseException] = asyncio.Queue()
    tasks: set[asyncio.Task[None]] = set()

    async def put_amended(news: Seen) -> None:
        queue.put_nowait(await amend(news))

    async def listen() -> None:
        try:
            async for news in told:
                if isinstance(news.error, AskedToEnd):
                    tasks.add(asyncio.create_task(put_amended(news)))
                else:
                    queue.put_nowait(news)
        except Exception as e:
            queue.put_nowait(e)

    tasks.add(asyncio.create_task(listen()))
    try:
        while True:
            item = await queue.get()
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _with_ticks(events: AsyncIterator[tuple[str, Pod]]) -> AsyncIterator[tuple[str, Pod | None]]:
    """The events, and between them, every `TICK_S`, nothing."""
    queue: asyncio.Queue[tuple[str, Pod] | BaseException | None] = asyncio.Queue(1000)

    async def pump() -> None:
        try:
            async for event in events:
                await queue.put(event)
            await queue.put(None)
        except Exception as e:
            await queue.put(e)

    task = asyncio.create_task(pump())
    try:
        while True:
            try:
                async with asyncio.timeout(TICK_S):
                    item = await queue.get()
            except TimeoutError:
                yield "", None
                continue
            if isinstance(item, BaseException):
                raise item
            if item is None:
                return
            yield item
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def now() -> dt.datetime:
    """The time, with its zone."""
    return dt.datetime.now(dt.UTC)
