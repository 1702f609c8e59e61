"""Which containers there are, while some are being made."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

from services.orchestrator.backends.docker.backend import DockerBackend
from services.orchestrator.backends.docker.container import Place
from services.orchestrator.backends.port import Box
from services.orchestrator.spec import Spec
from shared.config import DockerConfig, ResourcesConfig


class Engine:
    """Lists no container, and lets the one that is being made come to be while it does. Also images, tools and depot."""

    def __init__(self) -> None:
        self.listed, self.made = asyncio.Event(), asyncio.Event()
        self.containers = self

    async def list(self, **_: Any) -> list[Any]:
        self.listed.set()
        await self.made.wait()
        return []

    def container(self, _: str) -> Engine:
        return self

    async def show(self) -> dict[str, Any]:
        return {"Config": {"Labels": {"openforge.session": "s1"}}, "State": {"Status": "running"}}

    async def create(self, *_: Any, **__: Any) -> None:
        return None

    async def ensure(self, _: Box) -> str:
        return "image"

    async def volume(self, _: str) -> str:
        return "volume"

    async def put(self, _: Box) -> str:
        await self.listed.wait()
        return "ticket"


async def test_one_that_comes_to_be_while_the_others_are_listed_is_not_missing() -> None:
    engine = cast(Any, Engine())
    backend = DockerBackend(
        engine, Place("run", "/sockets", "public", ResourcesConfig()), engine, engine, engine, DockerConfig()
    )
    spec = cast(Spec, {"phases": [{"cwd": "/tmp"}], "lease_s": 0.0})
    backend._making["s1"] = making = asyncio.create_task(backend._make(Box("s1", {}, spec, Path("/"))))
    making.add_done_callback(lambda made: backend._made("s1", made))
    making.add_done_callback(lambda _: engine.made.set())
    seen = asyncio.create_task(backend.present())
    await making
    assert [(one.name, one.stage) for one in await seen] == [("s1", "pull")]
