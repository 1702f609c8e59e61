"""Containers of a real docker engine, with the real runner and a real proxy."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from services.orchestrator.backends.docker.backend import DockerBackend
from services.orchestrator.backends.docker.container import Place
from services.orchestrator.backends.docker.engine import connect
from services.orchestrator.backends.docker.images import Images
from services.orchestrator.backends.docker.network import PUBLIC
from services.orchestrator.backends.docker.tools import Tools
from services.orchestrator.backends.port import Resources
from services.orchestrator.depot import Depot
from shared.config import ProxyConfig
from shared.config.sandboxes import DockerConfig, ResourcesConfig
from shared.ids import new_run_id
from tests.hostile.containers import Contained, cleared
from tests.unit.orchestrator.runners import Bench
from tests.unit.proxy.world import KEY, World

BASE = "debian:bookworm-slim"


@asynccontextmanager
async def docker_arena(bench: Bench, proxy: World, folder: Path, resources: Resources) -> AsyncIterator[Contained]:
    """An arena whose container is gone afterwards. The proxy serves its unix socket in `folder`."""
    control = int(proxy.proxy.control_url.rpartition(":")[2])
    depot = Depot(ProxyConfig(control_port=control), KEY)
    docker = connect("")
    place = Place(new_run_id(), str(folder), PUBLIC, ResourcesConfig())
    backend = DockerBackend(docker, place, depot, Images(docker, BASE), Tools(docker, ""), DockerConfig())
    await backend.open()
    async with cleared(backend, depot):
        yield Contained(bench, backend, resources)
