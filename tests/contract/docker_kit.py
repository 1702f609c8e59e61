"""The kit of docker: containers of a real engine, with the real runner, which fetches its work from a real proxy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import fakeredis

from services.orchestrator.backends.docker.backend import docker_backend
from services.orchestrator.backends.docker.container import container_name
from services.orchestrator.backends.docker.engine import connect
from services.orchestrator.backends.port import Backend, Box, Resources
from services.orchestrator.depot import Depot
from services.orchestrator.plan import ENVIRONMENT, TESTS
from services.orchestrator.sandbox import Isolation
from services.proxy.service import ProxyService
from shared.bus.memory import MemoryBus
from shared.config import Config, DockerConfig, EngineConfig, OrchestratorConfig, ProxyConfig, RunConfig
from shared.ids import new_run_id
from shared.store.blobs import Blobs
from shared.store.boxes import Boxes
from shared.store.sessions import Sessions
from tests.unit.orchestrator.house import KEY
from tests.unit.orchestrator.runners import OTHER_UID, Bench

IMAGE = "debian:bookworm-slim"
VERIFIER = """#!/bin/sh
if [ "$(cat out.txt)" = hello ]; then echo 1; else echo 0; fi > "$LOGS_DIR/verifier/reward.txt"
"""


class DockerKit:
    """Containers of one run."""

    workdir = "/app"
    images = True

    def __init__(self, folder: Path) -> None:
        self._task = folder / "task"
        parts = {"task.toml": "", "instruction.md": "Write hello to out.txt.\n", "tests/test.sh": VERIFIER}
        for path, text in parts.items():
            (self._task / path).parent.mkdir(parents=True, exist_ok=True)
            (self._task / path).write_text(text)
        self._bench = Bench(Isolation("container", True, OTHER_UID), self._task, folder / "runs", folder / "sandboxes")
        socket = folder / "proxy" / "proxy.sock"
        self._config = Config(
            run=RunConfig(id=new_run_id(), root=str(folder / "runs")), engine=EngineConfig(url="http://127.0.0.1:9"),
            proxy=ProxyConfig(socket=str(socket)),
            orchestrator=OrchestratorConfig(backend="docker", docker=DockerConfig(image=IMAGE)),
        )  # fmt: skip
        self._proxy: ProxyService | None = None
        self._depots: list[Depot] = []

    async def backend(self) -> Backend:
        if self._proxy is None:
            store, run = fakeredis.FakeAsyncRedis(), self._config.run.id
            kept = Sessions(store, run), Blobs(store, run), Boxes(store, run)
            self._proxy = ProxyService(self._config, MemoryBus(), *kept, control_key=KEY)
            await self._proxy.start()
        port = int(self._proxy.control_url.rpartition(":")[2])
        self._depots.append(Depot(ProxyConfig(control_port=port), KEY, patience_s=5.0))
        backend = self.made(self._depots[-1])
        await backend.open()
        return backend

    def made(self, depot: Depot) -> Backend:
        """A backend that was not opened yet."""
        return docker_backend(self._config, depot)

    def box(self, script: str, name: str = "r1-a1", *, timeout_s: float = 120.0, grace_s: float = 0.3) -> Box:
        spec = self._bench.spec(script, name, timeout_s=timeout_s, grace_s=grace_s)
        packages = {ENVIRONMENT: self._task / "environment", TESTS: self._task / "tests"}
        return Box(
            name,
            {"rollout": name},
            spec,
            self._bench.records / name,
            packages=packages,
            resources=Resources(cpus=0.25, memory_mb=256),
        )

    def broken(self, name: str = "r1-a1") -> Box:
        return replace(self.box("exit 0", name), image="openforge-no-such-image:1")

    async def vanish(self, name: str) -> None:
        docker = connect("")
        await docker.containers.container(container_name(self._config.run.id, name)).delete(force=True)
        await docker.close()

    async def interrupt(self) -> None:
        """Connections to an engine cannot be broken from outside; test_docker_restart.py kills one of its own."""

    async def close(self) -> None:
        backend = await self.backend()
        for seen in await backend.present():
            await backend.remove(seen.name)
        await backend.close()
        for depot in self._depots:
            await depot.close()
        if self._proxy is not None:
            await self._proxy.stop()
