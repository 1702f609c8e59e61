"""What happens to the containers of a run, as the engine tells it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from aiodocker import Docker
from aiodocker.events import DockerEvents

from services.orchestrator.backends.docker.container import RUN_LABEL, SESSION_LABEL
from services.orchestrator.backends.docker.engine import asking
from shared.errors import SandboxAway

_TOLD = ["create", "start", "die", "destroy"]


@dataclass(frozen=True, slots=True)
class Change:
    """One of `create`, `start`, `die`, `destroy` of a session's container."""

    session: str
    action: str


@asynccontextmanager
async def listening(docker: Docker, run: str) -> AsyncIterator[AsyncIterator[Change]]:
    """All changes from the moment on that the context is entered. They end with `SandboxAway` when the engine does.

    Raises:
        SandboxAway: the engine does not answer.
    """
    with asking("watching the sandboxes"):
        since = datetime.fromisoformat((await docker.system.info())["SystemTime"]).timestamp()
    events = DockerEvents(docker)
    wanted = {"type": ["container"], "label": [f"{RUN_LABEL}={run}"], "event": _TOLD}
    subscriber = events.subscribe(create_task=False)
    asked = asyncio.create_task(events.run(since=f"{since:.6f}", filters=json.dumps(wanted)))
    try:
        yield _changes(subscriber, asked)
    finally:
        asked.cancel()
        await asyncio.wait({asked})


async def _changes(subscriber: Any, asked: asyncio.Task[None]) -> AsyncIterator[Change]:
    while (event := await subscriber.get()) is not None:
        if session := event["Actor"]["Attributes"].get(SESSION_LABEL):
            yield Change(session, event["Action"])
    with asking("watching the sandboxes", SandboxAway):
        await asked
    raise SandboxAway("the docker engine broke off its events")
