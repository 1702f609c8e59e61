"""Images of tasks: there, or pulled, or built from a Dockerfile; each once at a time, however many rollouts ask for it."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import IO, Any

from aiodocker import Docker, DockerError

from services.orchestrator.backends.docker.context import pack
from services.orchestrator.backends.docker.engine import NOT_FOUND, asking
from services.orchestrator.backends.docker.keep import Uses
from services.orchestrator.backends.port import Box
from shared.errors import ImageError
from shared.ids import slug

log = logging.getLogger(__name__)

BUILD_LOG = "build.log"
"""In the folder of an attempt whose image could not be built."""
_SHOWN_LINES = 12
_IN_MEMORY = 8 << 20

Say = Callable[[str], None]


class BuildError(ImageError):
    """An image could not be built; `lines` is all that the build said."""

    def __init__(self, text: str, lines: list[str]) -> None:
        super().__init__(text)
        self.lines = lines


class Once:
    """Work that is done once at a time for each key, for all who wait for it; one who waits no longer does not end it."""

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Task[None]] = {}

    async def do(self, key: str, work: Callable[[], Awaitable[None]]) -> None:
        """Does the work, or waits for those who do it."""
        task = self._running.get(key)
        if task is None:
            task = self._running[key] = asyncio.create_task(_awaiting(work))
            task.add_done_callback(lambda done: (self._running.pop(key), done.cancelled() or done.exception()))
        await asyncio.shield(task)


class Images:
    """Images in one engine.

    Args:
        docker: the engine.
        default: image of tasks that name none.
    """

    def __init__(self, docker: Docker, default: str) -> None:
        self._docker, self._default = docker, default
        self._once, self._uses = Once(), Uses(docker)
        self._platform = ""

    async def ensure(self, box: Box) -> str:
        """The image of a sandbox, which is there afterwards.

        Raises:
            ImageError: it could not be pulled or built; what the build said is in the attempt's folder.
            SandboxAway: the engine does not answer.
        """
        if box.dockerfile is None:
            name = box.image or self._default
            await self._once.do(name, lambda: self._pull(name))
            return name
        try:
            return await self._built(box.dockerfile.parent, box.build_timeout_s)
        except BuildError as e:
            box.folder.mkdir(parents=True, exist_ok=True)
            (box.folder / BUILD_LOG).write_text("\n".join(e.lines) + "\n", encoding="utf-8")
            raise ImageError(f"{e}\n(all of it: {box.folder / BUILD_LOG})") from None

    async def _built(self, folder: Path, timeout_s: float) -> str:
        try:
            digest = await asyncio.to_thread(pack, folder)
        except OSError as e:
            raise ImageError(f"what the image is built from cannot be read: {e}") from e
        name = f"openforge-task-{slug(folder.parent.name).lower()}:{digest[:24]}-{await self._machine()}"

        async def work() -> None:
            if not await have(self._docker, name):
                with tempfile.SpooledTemporaryFile(_IN_MEMORY) as file:
                    await asyncio.to_thread(pack, folder, file)
                    await build(self._docker, name, file, timeout_s, log.info)

        await self._once.do(name, work)
        await self._uses.note(name)
        return name

    async def _machine(self) -> str:
        if not self._platform:
            with asking("the platform of the docker engine"):
                self._platform = (await self._docker.system.info())["Architecture"]
        return self._platform

    async def _pull(self, name: str) -> None:
        if await have(self._docker, name):
            return
        log.info("pulling %s", name)
        with asking(f"the image {name} is not in the docker engine and could not be pulled", ImageError):
            await self._docker.images.pull(name)


async def have(docker: Docker, name: str) -> bool:
    """Whether an image is in the engine."""
    with asking(f"looking for the image {name}"):
        try:
            await docker.images.inspect(name)
        except DockerError as e:
            if e.status != NOT_FOUND:
                raise
            return False
    return True


async def build(docker: Docker, name: str, context: IO[bytes], timeout_s: float, say: Say) -> None:
    """Builds an image.

    Args:
        docker: the engine.
        name: of the image.
        context: tar archive with a Dockerfile.
        timeout_s: limit.
        say: takes what happens, a line at a time.

    Raises:
        BuildError: it could not be built, or not in time.
        SandboxAway: the engine does not answer.
    """
    say(f"building {name}")
    context.seek(0)
    lines: list[str] = []
    try:
        async with asyncio.timeout(timeout_s) as limit:
            with asking(f"building {name}", ImageError):
                steps = docker.images.build(fileobj=context, encoding="identity", tag=name, forcerm=True, stream=True)
                async for step in steps:
                    for line in _lines(step):
                        lines.append(line)
                        say(line)
    except TimeoutError:
        if not limit.expired():
            raise
        raise BuildError(_failed(f"the image was not built within {timeout_s:g} s", lines), lines) from None
    except ImageError as e:
        raise BuildError(_failed(str(e), lines), lines) from None


def _lines(step: dict[str, Any]) -> list[str]:
    return [line for line in str(step.get("stream", "")).splitlines() if line.strip()]


def _failed(why: str, lines: list[str]) -> str:
    return "\n".join([f"{why}; the build ended with", *lines[-_SHOWN_LINES:]]) if lines else why


async def _awaiting(work: Callable[[], Awaitable[None]]) -> None:
    await work()
