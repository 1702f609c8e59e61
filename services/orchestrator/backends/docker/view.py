"""The containers of a run as their engine knows them."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterator
from typing import Any

from aiodocker import Docker, DockerError
from aiodocker.containers import DockerContainer

from services.orchestrator.backends.docker import files
from services.orchestrator.backends.docker.container import (
    DEADLINE_LABEL,
    RUN_LABEL,
    SESSION_LABEL,
    STATUS_FILE,
    container_name,
    ended,
    forgotten,
    in_stage,
    start_error,
)
from services.orchestrator.backends.docker.engine import CONFLICT, NOT_FOUND, asking
from services.orchestrator.backends.port import Seen
from shared.errors import SandboxAway, SandboxError

log = logging.getLogger(__name__)

_LAST_LINES = 20


class View:
    """Containers by session id. All methods raise `SandboxAway` when the engine does not answer.

    Args:
        docker: the engine.
        run: id of the run.

    Attributes:
        where: name of the engine's machine.
    """

    def __init__(self, docker: Docker, run: str) -> None:
        self._docker, self.run = docker, run
        self.where = ""

    def container(self, name: str) -> DockerContainer:
        """The container that a sandbox has, or would have."""
        return self._docker.containers.container(container_name(self.run, name))

    async def states(self) -> dict[str, str]:
        """All that there are: `created`, `running`, `exited`..."""
        with asking("listing the sandboxes"):
            wanted = json.dumps({"label": [f"{RUN_LABEL}={self.run}"]})
            found = await self._docker.containers.list(all=True, filters=wanted)
        return {container["Labels"][SESSION_LABEL]: container["State"] for container in found}

    async def remove_forgotten(self, now: float) -> None:
        """Removes the containers of all runs that are nobody's any more."""
        with asking("listing containers that nobody came back for"):
            found = await self._docker.containers.list(all=True, filters=json.dumps({"label": [DEADLINE_LABEL]}))
        for container in found:
            if forgotten(container["Labels"], container["Created"], now):
                name = container["Names"][0]
                log.info("nobody came back for the sandbox %s: it is removed", name)
                with asking(f"removing the container {name}"), ignoring(NOT_FOUND, CONFLICT):
                    await container.delete(force=True, v=True)

    async def inspect(self, name: str) -> dict[str, Any] | None:
        """All about one; None if it is not there."""
        with asking(f"looking at the sandbox {name}"), ignoring(NOT_FOUND):
            return dict(await self.container(name).show())
        return None

    async def boot(self, name: str) -> None:
        """Starts one that was made.

        Raises:
            SandboxError: it cannot be started.
        """
        try:
            with asking(f"starting the sandbox {name}"):
                await self.container(name).start()
        except SandboxAway:
            raise
        except SandboxError as e:
            raise start_error(str(e)) from None

    async def signal(self, name: str, number: str) -> bool:
        """Whether it ran and was sent the signal."""
        with asking(f"ending the sandbox {name}"), ignoring(NOT_FOUND, CONFLICT):
            await self.container(name).kill(signal=number)
            return True
        return False

    async def remove(self, name: str) -> None:
        """Kills and removes it, if it is there."""
        with asking(f"removing the sandbox {name}"), ignoring(NOT_FOUND, CONFLICT):  # conflict: it is being removed
            await self.container(name).delete(force=True, v=True)

    async def seen(self, name: str) -> Seen | None:
        """How a sandbox is seen; None if it is not there."""
        found = await self.inspect(name)
        if found is None:
            return None
        if seen := in_stage(name, found["State"]["Status"], self.where):
            return seen
        try:
            return await self._ended(name, found)
        except SandboxAway:
            raise
        except SandboxError as e:
            return Seen(name, "ended", error=e, where=self.where)

    async def _ended(self, name: str, found: dict[str, Any]) -> Seen:
        container = self.container(name)
        left = await files.read_small(container, STATUS_FILE)
        if found["State"]["ExitCode"] == 0:
            return ended(name, found, left, "", self.where)
        with asking(f"the last words of the sandbox {name}"):
            printed = await container.log(stdout=True, stderr=True, tail=_LAST_LINES)
        return ended(name, found, left, "".join(printed), self.where)


def vanished(name: str) -> Seen:
    """How a sandbox is seen that is not there any more."""
    return Seen(name, "ended", error=SandboxError("the sandbox was removed by somebody else"))


@contextlib.contextmanager
def ignoring(*statuses: int) -> Iterator[None]:
    """Passes over what an engine refuses for one of these reasons."""
    try:
        yield
    except DockerError as e:
        if e.status not in statuses:
            raise
