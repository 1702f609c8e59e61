"""The port of sandboxes over a docker engine.

Making a sandbox may take minutes (its image is built), so a task does it and what comes of it is told to whoever watches. All
else is the engine's to know: an orchestrator that restarts, or an engine that does, finds the containers by their labels.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any, Protocol

from aiodocker import Docker
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_exponential

from services.orchestrator.backends.docker import files
from services.orchestrator.backends.docker.commands import run_command
from services.orchestrator.backends.docker.container import (
    SESSION_LABEL,
    Place,
    container_config,
    container_name,
)
from services.orchestrator.backends.docker.engine import CONFLICT, NOT_FOUND, asking, connect
from services.orchestrator.backends.docker.images import Images
from services.orchestrator.backends.docker.keep import look, remove, superfluous
from services.orchestrator.backends.docker.network import PUBLIC, ensure_network
from services.orchestrator.backends.docker.tools import Tools
from services.orchestrator.backends.docker.view import View, ignoring, vanished
from services.orchestrator.backends.docker.watching import Watch
from services.orchestrator.backends.port import LOG_BYTES, Box, Ran, Seen
from services.orchestrator.runner.relay import SUFFIX
from shared.config import Config, DockerConfig
from shared.errors import Cancelled, ConfigError, ForgeError, SandboxAway, SandboxError

log = logging.getLogger(__name__)

_AWAY_S = 60.0  # how long making a sandbox waits for an engine that is away
_PAUSE_S = 5.0  # longest pause before the next try
_PATIENCE_S = 10.0
"""How long asking for a sandbox waits until it is there, and outlives whoever asked. Building an image may take longer."""
_NO_DISK = "--storage-opt is supported only"
_LIMITS = (("MemoryLimit", "memory"), ("PidsLimit", "processes"), ("CpuCfsQuota", "cpus"))


class Depot(Protocol):
    """Where runners fetch what they need from."""

    async def put(self, box: Box) -> str:
        """Leaves the spec and the packages of a sandbox there, and gives the ticket that opens them."""
        ...


class DockerBackend:
    """Containers of one run.

    Args:
        docker: the engine.
        place: what its containers have in common.
        depot: where their runners fetch from.
        images: of tasks.
        tools: what is brought into them.
        config: how long images are kept.
    """

    kind = "docker"

    def __init__(
        self, docker: Docker, place: Place, depot: Depot, images: Images, tools: Tools, config: DockerConfig
    ) -> None:  # fmt: skip
        self._docker, self._place, self._depot, self._images, self._tools = docker, place, depot, images, tools
        self._config = config
        self._view = View(docker, place.run)
        self._disk, self._closed = True, False
        self._making: dict[str, asyncio.Task[None]] = {}
        self._failed: dict[str, Seen] = {}
        self._removed: set[str] = set()  # that an engine may still list
        self._watches: set[Watch] = set()
        self._listeners: set[asyncio.Queue[Seen | None]] = set()
        self._errands: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """See `Backend.open`."""
        with asking("sandboxes in a docker engine, which DOCKER_HOST or orchestrator.docker.host names"):
            info = await self._docker.system.info()
        if info["OSType"] != "linux":
            raise SandboxError(f"the docker engine runs {info['OSType']} containers; sandboxes are linux ones")
        self._view.where = info["Name"]
        for key, what in _LIMITS:
            if not info.get(key):
                log.warning("this docker engine cannot limit the %s of sandboxes", what)
        self._in_background(self._remove_forgotten())
        self._in_background(self._remove_unused())

    async def start(self, box: Box) -> None:
        """See `Backend.start`."""
        if box.name in self._making or box.name in self._failed:
            return
        if await self._view.inspect(box.name) is None and box.name not in self._making:
            self._making[box.name] = task = asyncio.create_task(self._make(box))
            task.add_done_callback(lambda made: self._made(box.name, made))
            self._tell(self._coming(box.name))
            await asyncio.wait({task}, timeout=_PATIENCE_S)

    async def present(self) -> list[Seen]:
        """See `Backend.present`."""
        coming = {name: self._coming(name) for name in self._making}  # now: one may be made while the engine lists the others
        listed = await self._view.states()
        self._removed.intersection_update(listed)
        looked = await asyncio.gather(*(self._look(*each) for each in listed.items()))
        return list((coming | {seen.name: seen for seen in looked if seen} | self._failed).values())

    async def watch(self) -> AsyncIterator[Seen]:
        """See `Backend.watch`."""
        queue: asyncio.Queue[Seen | None] = asyncio.Queue()
        self._listeners.add(queue)
        self._watches.add(watch := Watch(self._docker, self._view, self.present, queue.put_nowait))
        watching = asyncio.create_task(watch.forever())
        watching.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (seen := await queue.get()) is not None:
                yield seen
            await watching
        finally:
            self._listeners.discard(queue)
            self._watches.discard(watch)
            watching.cancel()
            await asyncio.wait({watching})

    async def end(self, name: str, grace_s: float) -> None:
        """See `Backend.end`."""
        if making := self._making.get(name):
            making.cancel()
        elif await self._view.signal(name, "SIGTERM"):
            self._in_background(self._kill_later(name, grace_s))

    async def remove(self, name: str) -> None:
        """See `Backend.remove`."""
        if making := self._making.get(name):
            making.cancel()
            await asyncio.wait({making})
        self._failed.pop(name, None)
        self._removed.add(name)
        for watch in self._watches:
            watch.forget(name)
        await self._view.remove(name)

    async def logs(self, name: str) -> bytes:
        """See `Backend.logs`."""
        with asking(f"the logs of the sandbox {name}"), ignoring(NOT_FOUND):
            return "".join(await self._view.container(name).log(stdout=True, stderr=True)).encode()[:LOG_BYTES]
        return b""

    async def copy_in(self, name: str, source: Path, target: str) -> None:
        """See `Backend.copy_in`."""
        await files.copy_in(self._view.container(name), source, target)

    async def copy_out(self, name: str, source: str, target: Path) -> None:
        """See `Backend.copy_out`."""
        await files.copy_out(self._view.container(name), source, target)

    async def run(self, name: str, argv: list[str], timeout_s: float) -> Ran:
        """See `Backend.run`."""
        return await run_command(self._view.container(name), argv, timeout_s)

    async def close(self) -> None:
        """See `Backend.close`."""
        self._closed = True
        for task in (tasks := {*self._making.values(), *self._errands}):
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._docker.close()

    async def _look(self, name: str, state: str) -> Seen | None:
        """How one is that is listed; None if it was cleared away since. What is listed may be old: docker 20.10 says that a
        container died, and goes on listing it as running until it has cleaned up."""
        if state == "created" and name not in self._making:
            await self._boot_left(name)
        return await self._view.seen(name) or (None if name in self._removed else vanished(name))

    async def _boot_left(self, name: str) -> None:
        """Starts what an orchestrator made that died before it started it. What began since it was listed, and perhaps ended,
        is not run once more."""
        try:
            found = await self._view.inspect(name)
            if found is not None and found["State"]["Status"] == "created":
                await self._view.boot(name)
        except SandboxAway:
            raise
        except SandboxError as e:
            self._fail(name, e)

    async def _make(self, box: Box) -> None:
        image, tools = await asyncio.gather(self._images.ensure(box), self._tools.volume(box.harness))
        if box.network == "public":
            await ensure_network(self._docker, self._place.network)
        ticket = await self._depot.put(box)
        creating = asyncio.create_task(self._create(box, image, tools, ticket))
        try:
            await asyncio.shield(creating)
        except asyncio.CancelledError:  # the engine would go on: an unwanted container must not come to be afterwards
            await asyncio.wait({creating})
            if not self._closed:
                await self._view.signal(box.name, "SIGKILL")
            raise

    @retry(
        retry=retry_if_exception_type(SandboxAway), stop=stop_after_delay(_AWAY_S),
        wait=wait_exponential(0.1, max=_PAUSE_S), reraise=True,
    )  # fmt: skip
    async def _create(self, box: Box, image: str, tools: str, ticket: str) -> None:
        name = container_name(self._place.run, box.name)
        config = container_config(box, self._place, image, tools, ticket, self._disk)
        try:
            with asking(f"making the sandbox {box.name}"), ignoring(CONFLICT):
                await self._docker.containers.create(config, name=name)
        except SandboxError as e:
            if _NO_DISK not in str(e) or not self._disk:
                raise
            log.warning("this docker engine cannot limit the disk of sandboxes (that takes overlay2 on xfs with pquota)")
            self._disk = False
            await self._create(box, image, tools, ticket)
            return
        found = await self._view.inspect(box.name)
        if found is None or found["Config"]["Labels"].get(SESSION_LABEL) != box.name:
            raise SandboxError(f"there is a container {name} that is no sandbox of this run; remove it")
        if found["State"]["Status"] == "created":
            await self._view.boot(box.name)

    def _made(self, name: str, task: asyncio.Task[None]) -> None:
        """What became of the making of a sandbox; nobody awaits it."""
        del self._making[name]
        error = Cancelled("the sandbox was not wanted any more before it ran") if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, ForgeError):
            log.error("making the sandbox %s", name, exc_info=error)
            error = SandboxError(f"making the sandbox: {error!r}")
        if error is not None:
            self._fail(name, error)

    def _fail(self, name: str, error: ForgeError) -> None:
        self._failed[name] = Seen(name, "ended", error=error, where=self._view.where)
        self._tell(self._failed[name])

    def _in_background(self, errand: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(errand)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)

    async def _remove_forgotten(self) -> None:
        try:
            await self._view.remove_forgotten(time.time())
        except SandboxError as e:
            log.warning("containers that nobody came back for may be left: %s", e)

    async def _remove_unused(self) -> None:
        try:
            await remove(self._docker, superfluous(await look(self._docker), self._config, time.time()))
        except SandboxError as e:
            log.warning("images that nobody uses may be left: %s", e)

    async def _kill_later(self, name: str, grace_s: float) -> None:
        await asyncio.sleep(grace_s)
        with contextlib.suppress(SandboxError):
            await self._view.signal(name, "SIGKILL")

    def _coming(self, name: str) -> Seen:
        return Seen(name, "pull", where=self._view.where)

    def _tell(self, seen: Seen) -> None:
        for queue in self._listeners:
            queue.put_nowait(seen)


def docker_backend(config: Config, depot: Depot) -> DockerBackend:
    """The containers of a run, as its configuration has them. Needs a running event loop.

    Raises:
        SandboxError: the address of the engine is none.
        ConfigError: nothing says where the proxy's socket is.
    """
    settings, harnesses = config.orchestrator.docker, config.orchestrator.harness_dir
    socket = Path(config.proxy.socket).absolute()
    if not config.proxy.socket and not settings.socket_volume:
        raise ConfigError("sandboxes in containers reach the proxy through a unix socket: set proxy.socket to a path for it")
    if config.proxy.socket and socket.suffix != SUFFIX:
        raise ConfigError(
            f"containers look for names that end with {SUFFIX}: set proxy.socket to {socket.with_name('proxy.sock')}"
        )
    sockets = settings.socket_volume or str(socket.parent)
    docker = connect(settings.host)
    place = Place(config.run.id, sockets, PUBLIC, config.orchestrator.resources)
    return DockerBackend(docker, place, depot, Images(docker, settings.image), Tools(docker, harnesses), settings)
