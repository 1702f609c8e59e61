"""Images that this project built in an engine: when each was last used, and which go. What was pulled is somebody else's.

An engine notes when an image was last given a name. Giving it the one that it has says that it was used, to all orchestrators.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from aiodocker import Docker, DockerError

from services.orchestrator.backends.docker.engine import CONFLICT, NOT_FOUND, asking
from shared.config import DockerConfig
from shared.errors import SandboxError

log = logging.getLogger(__name__)

OURS = ("openforge-task-*", "openforge-harness-*")
NOTED_S = 3600.0
"""Seconds between two notes that an image is used."""
_YOUNG_S = 86400.0  # an image that was used since never goes, however much there is
_DAY_S, _GB = 86400.0, 1e9


@dataclass(frozen=True, slots=True)
class Image:
    """An image of ours.

    Attributes:
        id: of its content.
        names: all that it has.
        size: bytes, layers that it shares with others included.
        used: unix time at which it was last used.
    """

    id: str
    names: tuple[str, ...]
    size: int
    used: float


def superfluous(images: Sequence[Image], config: DockerConfig, now: float) -> list[Image]:
    """Images that go, the longest unused first: those unused for too long, then as many as are too much. Pure."""
    left, going = sum(image.size for image in images), []
    for image in sorted(images, key=lambda image: image.used):
        idle_s = now - image.used
        too_old = config.images_days and idle_s > config.images_days * _DAY_S
        too_much = config.images_gb and left > config.images_gb * _GB
        if idle_s > _YOUNG_S and (too_old or too_much):
            going.append(image)
            left -= image.size
    return going


class Uses:
    """Notes in an engine that images are used, not more often than every hour."""

    def __init__(self, docker: Docker) -> None:
        self._docker = docker
        self._noted: dict[str, float] = {}

    async def note(self, name: str) -> None:
        """An image is being used. That it cannot be noted is no reason not to."""
        now = time.monotonic()
        if now - self._noted.get(name, -NOTED_S) < NOTED_S:
            return
        self._noted[name] = now
        repository, _, tag = name.rpartition(":")
        try:
            with asking(f"noting that the image {name} is used"):
                await self._docker.images.tag(name, repository, tag=tag)
        except SandboxError as e:
            log.warning("%s", e)


async def look(docker: Docker, patterns: Sequence[str] = OURS) -> list[Image]:
    """The images of an engine whose names match.

    Raises:
        SandboxAway: the engine does not answer.
    """
    with asking("looking for images that are not used"):
        listed = await docker.images.list(filters={"reference": list(patterns)})
    images = [await _inspect(docker, each["Id"]) for each in listed]
    return [image for image in images if image and image.names]


async def remove(docker: Docker, images: Sequence[Image]) -> int:
    """Removes images, with the volume that was filled from each, unless a container has them or they were used since `look`.

    Returns:
        How many went.

    Raises:
        SandboxAway: the engine does not answer.
    """
    gone = 0
    for image in images:
        if await _inspect(docker, image.id) == image:
            with asking(f"removing the image {image.names[0]}"):
                gone += await _remove(docker, image)
    return gone


async def _remove(docker: Docker, image: Image) -> bool:
    try:
        for name in image.names:
            await _remove_volume(docker, name.replace(":", "-"))
            await docker.images.delete(name)
    except DockerError as e:
        if e.status not in (NOT_FOUND, CONFLICT):
            raise
        log.info("the image %s stays: %s", image.names[0], e.message)
        return False
    log.info("the image %s is removed: it was not used for %.0f days", image.names[0], (time.time() - image.used) / _DAY_S)
    return True


async def _remove_volume(docker: Docker, name: str) -> None:
    """Removes the volume with a harness, and the container that says that it is complete: first the volume would be in use."""
    try:
        await docker.containers.container(name).delete()
    except DockerError as e:
        if e.status != NOT_FOUND:
            raise
        return
    await (await docker.volumes.get(name)).delete()


async def _inspect(docker: Docker, image: str) -> Image | None:
    with asking(f"looking at the image {image}"):
        try:
            told: dict[str, Any] = await docker.images.inspect(image)
        except DockerError as e:
            if e.status == NOT_FOUND:
                return None
            raise
    tagged = _unix((told.get("Metadata") or {}).get("LastTagTime", ""))
    names = tuple(sorted(name for name in told.get("RepoTags") or () if name.startswith("openforge-")))
    return Image(told["Id"], names, int(told["Size"]), max(tagged, _unix(told["Created"])))


def _unix(text: str) -> float:
    """A time as engines write it; 0 where they have none, which they write as one of the year 1."""
    return max(0.0, datetime.fromisoformat(text).timestamp()) if text else 0.0
