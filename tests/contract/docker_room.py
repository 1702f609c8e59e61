"""Containers of a real engine whose runner is a script: the shell runs what the test says."""

from __future__ import annotations

import asyncio
import io
import tarfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from aiodocker import Docker

from services.orchestrator.backends.docker.backend import DockerBackend
from services.orchestrator.backends.docker.container import Place
from services.orchestrator.backends.docker.engine import connect
from services.orchestrator.backends.docker.images import Images, build, have
from services.orchestrator.backends.docker.network import PUBLIC
from services.orchestrator.backends.docker.tools import Tools, fill_volume
from services.orchestrator.backends.port import Box, Seen
from services.orchestrator.spec import Spec
from shared.config.sandboxes import DockerConfig, ResourcesConfig
from shared.ids import new_run_id

BASE = "debian:bookworm-slim"
DONE = """echo '{"pid":1,"phase":"done","error":null,"phases":{}}' >$OPENFORGE_STATUS"""
TOOLS_IMAGE = "openforge-test-tools:2"
_DOCKERFILE = f"""FROM {BASE}
RUN mkdir -p /openforge/python/bin && cd /openforge/python/bin \\
 && printf '#!/bin/sh\\nexec /bin/sh -c "$OPENFORGE_TICKET"\\n' >python3 && chmod 755 python3
"""


class ScriptedTools(Tools):
    """A volume whose runner is the shell; its script is the ticket."""

    async def volume(self, harness: str) -> str:
        if not await have(self._docker, TOOLS_IMAGE):
            await build(self._docker, TOOLS_IMAGE, context(Dockerfile=_DOCKERFILE), 120.0, print)
        volume = TOOLS_IMAGE.replace(":", "-")
        await fill_volume(self._docker, TOOLS_IMAGE, volume)
        return volume


class Scripts:
    """A depot that hands out scripts."""

    def __init__(self) -> None:
        self.of: dict[str, str] = {}

    async def put(self, box: Box) -> str:
        """The script of a sandbox."""
        return self.of[box.name]


@dataclass
class Room:
    """A run with containers in a real engine."""

    run: str
    folder: Path
    docker: Docker
    scripts: Scripts
    backend: DockerBackend
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    told: list[Seen] = field(default_factory=list)

    def another(self, docker: Docker | None = None, run: str = "") -> DockerBackend:
        """A successor's backend of the same run, or one of another run."""
        docker = docker or connect("")
        place = Place(run or self.run, str(self.folder / "proxy"), PUBLIC, ResourcesConfig(memory_mb=256))
        return DockerBackend(
            docker,
            place,
            self.scripts,
            Images(docker, BASE),
            ScriptedTools(docker, ""),
            DockerConfig(images_days=0, images_gb=0),
        )

    async def start(self, name: str, script: str = DONE, **fields: Any) -> None:
        """Asks for a sandbox whose runner runs the script."""
        self.scripts.of[name] = script
        await self.backend.start(box(name, self.folder / "attempts" / name, **fields))

    def watch(self) -> None:
        """Keeps what is told in `told`."""

        async def listen() -> None:
            async for seen in self.backend.watch():
                self.told.append(seen)

        self.tasks.append(asyncio.create_task(listen()))

    async def until(self, name: str, stage: str, within_s: float = 60.0) -> Seen:
        """The sandbox in that stage, as it is told."""
        return await self.told_that(lambda seen: seen.name == name and seen.stage == stage, within_s)

    async def told_that(self, condition: Callable[[Seen], bool], within_s: float = 60.0) -> Seen:
        """The first of what was told that meets a condition."""
        async with asyncio.timeout(within_s):
            while True:
                if found := next((seen for seen in self.told if condition(seen)), None):
                    return found
                for task in self.tasks:
                    assert not task.done(), task
                await asyncio.sleep(0.02)


def box(name: str, folder: Path, **fields: Any) -> Box:
    """What is asked for."""
    spec = cast(Spec, {"phases": [{"cwd": "/tmp"}], "lease_s": 0.0})
    return Box(name=name, labels={"rollout": "r"}, spec=spec, folder=folder, **fields)


def context(**files: str) -> io.BytesIO:
    """A build context."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
    return file


@asynccontextmanager
async def open_room(folder: Path, host: str = "") -> AsyncIterator[Room]:
    """A room whose containers are gone afterwards."""
    (folder / "proxy").mkdir()
    docker = connect(host)
    room = Room(new_run_id(), folder, docker, Scripts(), None)  # type: ignore[arg-type]
    room.backend = room.another(docker)
    await room.backend.open()
    try:
        yield room
    finally:
        for task in room.tasks:
            task.cancel()
        if room.tasks:
            await asyncio.wait(room.tasks)
        for seen in await room.backend.present():
            await room.backend.remove(seen.name)
        await room.backend.close()
