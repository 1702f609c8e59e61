"""What is brought into containers: runner and harness, in a volume that is filled from the harness's image."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from typing import Any

from aiodocker import Docker, DockerError

from services.orchestrator.backends.docker.engine import CONFLICT, NOT_FOUND, asking
from services.orchestrator.backends.docker.images import Once, Say, build, have
from services.orchestrator.backends.docker.keep import Uses
from services.orchestrator.harnesses.adapter import load
from services.orchestrator.harnesses.image.recipe import Recipe, recipe, repository
from services.orchestrator.harnesses.layout import TOOLS
from services.orchestrator.harnesses.library import adapter_file
from shared.errors import ImageError, SandboxError

log = logging.getLogger(__name__)

BUILD_S = 1800.0
FILL_S = 600.0
NO_HARNESS = "react"
"""Whose image is taken where there is no harness: it has the runner and nothing else."""
_POLL_S = 0.1


class Tools:
    """Volumes with runner and harness in one engine.

    Args:
        docker: the engine.
        harness_dir: a user's own adapters; empty for none.
    """

    def __init__(self, docker: Docker, harness_dir: str) -> None:
        self._docker, self._harness_dir = docker, harness_dir
        self._once, self._uses = Once(), Uses(docker)
        self._filled: set[str] = set()

    async def volume(self, harness: str) -> str:
        """The volume of a harness, which is complete afterwards. Its image is built if it is not there.

        Raises:
            HarnessError: there is no such harness.
            ImageError: its image could not be built.
            SandboxAway: the engine does not answer.
        """
        made = await asyncio.to_thread(self._recipe, harness or NO_HARNESS)
        volume = made.image.replace(":", "-")
        if volume not in self._filled:
            await self._once.do(volume, lambda: self._fill(made, volume))
            self._filled.add(volume)
        await self._uses.note(made.image)
        return volume

    def _recipe(self, harness: str) -> Recipe:
        file = adapter_file(harness, self._harness_dir)
        return recipe(file, load(file))

    async def _fill(self, made: Recipe, volume: str) -> None:
        await ensure_harness_image(self._docker, made, log.info)
        await fill_volume(self._docker, made.image, volume)


async def ensure_harness_image(docker: Docker, made: Recipe, say: Say) -> None:
    """Builds a harness image unless it is there; it is the `latest` one afterwards.

    Raises:
        ImageError: it could not be built.
        SandboxAway: the engine does not answer.
    """
    if not await have(docker, made.image):
        with tempfile.TemporaryFile() as file:
            made.pack(file)
            await build(docker, made.image, file, BUILD_S, say)
    with asking(f"naming the image {made.image}"):
        await docker.images.tag(made.image, repository(made.name), tag="latest")


async def fill_volume(docker: Docker, image: str, volume: str) -> None:
    """Fills a volume from an image, unless that was done.

    An engine copies an image's folder into an empty volume when a container that mounts it is made. That container is never
    started; it stays, since that it is there says that the copy is complete, and nobody prunes a volume that it has.

    Raises:
        ImageError: it could not be filled.
        SandboxAway: the engine does not answer.
    """
    mount = {"Type": "volume", "Source": volume, "Target": TOOLS}
    labels = {"openforge.tools": volume}
    config: dict[str, Any] = {
        "Image": image,
        "Entrypoint": ["/"],
        "Labels": labels,
        "HostConfig": {"Mounts": [mount], "NetworkMode": "none"},
    }
    with asking(f"bringing {image} into the volume {volume}", ImageError):
        if await _is_there(docker, volume):
            return
        await _drop(docker, volume)
        try:
            await docker.containers.create(config, name=volume)
        except DockerError as e:
            if e.status != CONFLICT:
                raise
            await _await_other(docker, volume)


async def _await_other(docker: Docker, name: str) -> None:
    """Another orchestrator is filling it: its container can be looked at once that is done."""
    try:
        async with asyncio.timeout(FILL_S):
            while not await _is_there(docker, name):  # noqa: ASYNC110 - the engine tells no event of it
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise SandboxError(f"the container {name}, which another orchestrator began to make, does not come to be") from None


async def _is_there(docker: Docker, name: str) -> bool:
    try:
        await docker.containers.container(name).show()
    except DockerError as e:
        if e.status != NOT_FOUND:
            raise
        return False
    return True


async def _drop(docker: Docker, volume: str) -> None:
    """Removes what an engine left that died while it copied. A volume in use was complete once."""
    try:
        await (await docker.volumes.get(volume)).delete()
    except DockerError as e:
        if e.status not in (NOT_FOUND, CONFLICT):
            raise
