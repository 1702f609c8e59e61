"""The orchestrator over a cluster, from commands to outcomes; recording sessions are handed out without a proxy."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kubernetes_asyncio import client, config

from services.orchestrator.backends.kubernetes.backend import kubernetes_backend
from services.orchestrator.gateway import Endpoint
from services.orchestrator.sandbox import Isolation
from services.orchestrator.service import OrchestratorService
from services.orchestrator.site import Site
from services.orchestrator.state import Rollout, Sealed
from shared.bus.memory import Broker, MemoryBus
from shared.config import Config, KubernetesConfig, OrchestratorConfig, RunConfig
from shared.events import Message, RolloutFailed, RolloutFinished, RolloutStart, RolloutTimedOut, decode
from shared.roles import RoleRule
from tests.kube.cluster import Cluster
from tests.kube.fixtures import Told

PATIENCE_S = 600.0
GROUP = 8


@dataclass(frozen=True, slots=True)
class Orchestrated:
    """Seconds from the first command to the last outcome, seconds of CPU, and rollouts that did not finish."""

    wall_s: float
    cpu_s: float
    lost: int


class NoSessions:
    """Sessions that nothing records."""

    async def open(self, rollout: Rollout, roles: Sequence[RoleRule] = ()) -> Endpoint:
        """The same for all."""
        return Endpoint("http://10.9.9.9:8080/run/x", "secret")

    async def seal(self, rollout: Rollout) -> Sealed:
        """One call, well recorded."""
        return Sealed(calls=1)

    async def close(self) -> None:
        """Nothing is open."""


class Outcomes:
    """What became of rollouts, by the bus."""

    def __init__(self, broker: Broker, number: int) -> None:
        self.finished: set[str] = set()
        self.over = asyncio.Event()
        self._done: set[str] = set()
        self._number = number
        self._bus = MemoryBus(broker)
        self.task = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        async for tapped in self._bus.tap("forge.v1.evt.rollout.>"):
            self._hear(decode(tapped.data))

    def _hear(self, message: Message) -> None:
        if isinstance(message, RolloutFinished):
            self.finished.add(message.rollout_id)
        if isinstance(message, RolloutFinished | RolloutTimedOut) or (isinstance(message, RolloutFailed) and message.final):
            self._done.add(message.rollout_id)
        if len(self._done) == self._number:
            self.over.set()


def settings_of(cluster: Cluster, namespace: str) -> KubernetesConfig:
    """Settings for a namespace of a cluster."""
    return KubernetesConfig(kubeconfig=str(cluster.kubeconfig), namespace=namespace, proxy_url="http://10.9.9.9:8080")


async def ours(cluster: Cluster, folder: Path, run: str, number: int, concurrency: int) -> Orchestrated:
    """Runs so many rollouts, so many at once."""
    await _namespace(cluster, run)
    settings = Config(
        run=RunConfig(id=run, root=str(folder / "runs")),
        orchestrator=OrchestratorConfig(
            backend="kubernetes", concurrency=concurrency, attempts=1, kubernetes=settings_of(cluster, run)
        ),
    )  # fmt: skip

    broker = Broker()
    outcomes, bus = Outcomes(broker, number), MemoryBus(broker)
    isolation = Isolation("container", True, settings.orchestrator.kubernetes.uid)
    site = Site(kubernetes_backend(settings, Told("ticket")), lambda _: (isolation, folder))
    service = OrchestratorService(settings, bus, site, NoSessions())
    await service.start()
    task, began, cpu = _task(folder), time.monotonic(), time.process_time()
    try:
        for n in range(number):
            await bus.publish(_start(run, n, task))
        async with asyncio.timeout(PATIENCE_S):
            await outcomes.over.wait()
        return Orchestrated(time.monotonic() - began, time.process_time() - cpu, number - len(outcomes.finished))
    finally:
        await service.stop()
        outcomes.task.cancel()


def _start(run: str, number: int, task: Path) -> RolloutStart:
    return RolloutStart(
        run_id=run,
        rollout_id=f"r{number}",
        group_id=f"g{number // GROUP}",
        group_size=GROUP,
        harness="react",
        task_dir=str(task),
    )


def _task(folder: Path) -> Path:
    task = folder / "task"
    for path, text in {"task.toml": "", "instruction.md": "Say a word.\n", "tests/test.sh": "#!/bin/sh\n"}.items():
        (task / path).parent.mkdir(parents=True, exist_ok=True)
        (task / path).write_text(text)
    return task


async def _namespace(cluster: Cluster, name: str) -> None:
    configuration = client.Configuration()
    await config.load_kube_config(str(cluster.kubeconfig), client_configuration=configuration)
    async with client.ApiClient(configuration) as api:
        await client.CoreV1Api(api).create_namespace({"metadata": {"name": name}})
    await asyncio.sleep(2)  # until the namespace has its service account
