"""An orchestrator of its own process over a cluster whose pods end when a test says so; what bus and cluster say of it."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from kubernetes_asyncio import client, config

from services.app import ready_file
from shared.config import Config, KubernetesConfig, OrchestratorConfig, RunConfig
from shared.events import RolloutFailed, RolloutFinished, RolloutStart, RolloutStarted, RolloutTimedOut
from tests.e2e.fleet import REPO, Fleet
from tests.kube.boxes import REWARDED
from tests.kube.cluster import Cluster
from tests.waiting import until

PATCH = "application/strategic-merge-patch+json"
OUTCOMES = (RolloutFinished, RolloutTimedOut, RolloutFailed)
START_S = 120.0
HOUR_S = 3600.0
"""Limit of agents: their pods run from when the first is made until the last runs, which takes minutes on a busy machine."""


class Orchestrator:
    """`openforge serve orchestrator` as a process; killed and started again it has the same run folder."""

    def __init__(self, folder: Path, house: Fleet, kubeconfig: Path, namespace: str, rollouts: int) -> None:
        settings = KubernetesConfig(kubeconfig=str(kubeconfig), namespace=namespace, proxy_url="http://10.9.9.9:8080")
        ports = {
            "port": urlsplit(house.proxies[0].url).port,
            "control_port": urlsplit(house.proxies[0].control_url).port,
        }
        self.config = msgspec.structs.replace(
            house.config, run=RunConfig(id=house.config.run.id, root=str(folder / "runs")),
            proxy=msgspec.structs.replace(house.config.proxy, **ports),
            orchestrator=OrchestratorConfig(backend="kubernetes", concurrency=rollouts, attempts=1, kubernetes=settings),
        )  # fmt: skip
        self._file, self._log, self._env = folder / "orchestrator.json", folder / "orchestrator.log", house.env
        self._file.write_bytes(msgspec.json.encode(self.config))
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Returns when it is ready."""
        ready = ready_file(self.config, "orchestrator")
        ready.unlink(missing_ok=True)
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "services.cli", "serve", "orchestrator", "--config", str(self._file),
                cwd=REPO, env={**os.environ, **self._env}, stdout=log, stderr=log,
            )  # fmt: skip
        await until(lambda: ready.exists() or not self.lives, START_S)
        assert self.lives, self._log.read_text()[-2000:]

    @property
    def lives(self) -> bool:
        """The process was not killed, and did not end."""
        return self._process is not None and self._process.returncode is None

    async def kill(self) -> None:
        """kill -9, unless it is dead already."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


@dataclass(frozen=True, slots=True)
class End:
    """How a pod ends, and what becomes of its rollout."""

    code: int
    reason: str
    outcome: str
    detail: str = ""


ENDS = (
    End(137, "OOMKilled", "AgentMemory"),
    End(137, "Error", "SandboxError", "exit code 137"),
    *[End(0, "Completed", "finished")] * 6,
)
"""In turn: an agent's memory ran out with the runner's, somebody killed it, and six that got their reward."""


def end_of(rollout: str) -> End:
    """How the pod of a rollout `r<number>` ends."""
    return ENDS[int(rollout.removeprefix("r")) % len(ENDS)]


class Pods:
    """Pods of one namespace.

    Args:
        api: of somebody who may do everything.
        namespace: of the pods.
    """

    def __init__(self, api: client.ApiClient, namespace: str) -> None:
        self._core, self.namespace = client.CoreV1Api(api), namespace
        self._slots = asyncio.Semaphore(16)

    async def make(self) -> None:
        """Makes the namespace."""
        await self._core.create_namespace({"metadata": {"name": self.namespace}})
        await asyncio.sleep(2)  # until it has its service account

    async def all(self) -> list[Any]:
        """All that there are."""
        return list((await self._core.list_namespaced_pod(self.namespace)).items)

    async def running(self) -> int:
        """How many run."""
        return sum(pod.status.phase == "Running" for pod in await self.all())

    async def end(self, pods: list[Any]) -> None:
        """They end as `end_of` has it, as their node would say it."""
        await asyncio.gather(*(self._end(pod) for pod in pods))

    async def _end(self, pod: Any) -> None:
        how = end_of(pod.metadata.annotations["openforge.dev/rollout"])
        ended = {"exitCode": how.code, "reason": how.reason, "message": "" if how.code else REWARDED}
        container = {"name": "agent", "image": "img", "imageID": "", "ready": False, "restartCount": 0}
        status = {
            "phase": "Failed" if how.code else "Succeeded",
            "containerStatuses": [container | {"state": {"terminated": ended}}],
        }
        body = {"metadata": {"uid": pod.metadata.uid}, "status": status}
        async with self._slots:
            await self._core.patch_namespaced_pod_status(pod.metadata.name, self.namespace, body, _content_type=PATCH)


async def api_of(cluster: Cluster) -> client.ApiClient:
    """A client of somebody who may do everything."""
    configuration = client.Configuration()
    await config.load_kube_config(str(cluster.kubeconfig), client_configuration=configuration)
    return client.ApiClient(configuration)


async def ask(house: Fleet, task: Path, rollouts: int, first: int = 0) -> None:
    """Asks for so many rollouts, `r0`, `r1`... unless `first` says otherwise."""
    for n in range(first, first + rollouts):
        await house.bus.publish(
            RolloutStart(
                run_id=house.config.run.id, rollout_id=f"r{n}", group_id=f"g{n // 8}", group_size=8, harness="react",
                task_dir=str(task), timeout_s=HOUR_S,
            )
        )  # fmt: skip


async def told(house: Fleet) -> tuple[list[str], dict[str, list[Any]]]:
    """What the bus keeps: rollouts that began, one entry each time, and outcomes by rollout."""
    run = house.config.run.id
    began = [m.rollout_id async for _, m in house.bus.replay(RolloutStarted, run, "*", 0) if isinstance(m, RolloutStarted)]
    outcomes: dict[str, list[Any]] = {}
    for kind in OUTCOMES:
        async for _, message in house.bus.replay(kind, run, "*", 0):
            outcomes.setdefault(message.key, []).append(message)
    return began, outcomes


def said(outcome: Any) -> tuple[str, int, float | None]:
    """An outcome in short: what, of which attempt, with which reward."""
    if isinstance(outcome, RolloutFinished):
        return "finished", outcome.attempt, outcome.reward
    return outcome.reason, outcome.attempt, None


def expected(config: Config, rollouts: int) -> dict[str, list[tuple[str, int, float | None]]]:
    """Outcomes in short, if each rollout had one attempt, which ended as its pod did."""
    assert config.orchestrator.attempts == 1, "a second attempt would follow on some of them"
    ends = {f"r{n}": end_of(f"r{n}") for n in range(rollouts)}
    return {name: [(end.outcome, 1, None if end.code else 1.0)] for name, end in ends.items()}
