"""Containers of a real docker engine, with the real runner and a real proxy."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from services.orchestrator.backends.docker.backend import DockerBackend
from services.orchestrator.backends.docker.container import Place
from services.orchestrator.backends.docker.engine import connect
from services.orchestrator.backends.docker.images import Images
from services.orchestrator.backends.docker.network import PUBLIC
from services.orchestrator.backends.docker.tools import Tools
from services.orchestrator.backends.port import Box, Resources
from services.orchestrator.depot import Depot
from services.orchestrator.sandbox import Isolation
from shared.config import ProxyConfig
from shared.config.sandboxes import ResourcesConfig
from shared.ids import new_run_id
from tests.hostile.arenas import Outcome, script
from tests.unit.orchestrator.runners import OTHER_UID, Bench
from tests.unit.proxy.world import KEY, World

BASE = "debian:bookworm-slim"
PYTHON = "/openforge/python/bin/python3"


class Docker:
    """One container at a time."""

    app = "/app"
    open_network = own_root = False

    def __init__(self, bench: Bench, backend: DockerBackend, resources: Resources) -> None:
        self._bench, self._backend, self._resources = bench, backend, resources
        bench.isolation = Isolation("container", True, OTHER_UID)

    async def run(self, order: dict[str, Any], *, timeout_s: float) -> Outcome:
        """See `Arena.run`."""
        spec = self._bench.spec(script(PYTHON, order), timeout_s=timeout_s, log_bytes=1_000_000)
        folders = {"tests": self._bench.task / "tests", "environment": self._bench.task / "environment"}
        box = Box("r1-a1", {}, spec, self._bench.records, harness="react", packages=folders, resources=self._resources)
        await self._backend.start(box)
        async for seen in self._backend.watch():
            if seen.stage == "ended":
                break
        if seen.status is None:
            raise AssertionError(f"{seen.error}: {(await self._backend.logs(box.name))[-2000:]!r}")
        printed = (await self._backend.logs(box.name)).decode(errors="replace")
        agent, _, verified = printed.partition("\n--- verify ---\n")
        return Outcome(seen.status, agent, verified)


@asynccontextmanager
async def docker_arena(bench: Bench, proxy: World, folder: Path, resources: Resources) -> AsyncIterator[Docker]:
    """An arena whose container is gone afterwards. The proxy serves its unix socket in `folder`."""
    control = int(proxy.proxy.control_url.rpartition(":")[2])
    depot = Depot(ProxyConfig(control_port=control), KEY)
    docker = connect("")
    place = Place(new_run_id(), str(folder), PUBLIC, ResourcesConfig())
    backend = DockerBackend(docker, place, depot, Images(docker, BASE), Tools(docker, ""))
    await backend.open()
    try:
        yield Docker(bench, backend, resources)
    finally:
        for seen in await backend.present():
            await backend.remove(seen.name)
        await backend.close()
        await depot.close()
