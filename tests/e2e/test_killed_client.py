"""Whoever started a run is killed with -9 while its agents run: soon nothing of it is left, though nobody comes back."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from shared.events import RolloutStart
from tests.contract.conftest import docker_engine
from tests.e2e.pods import Pods, api_of
from tests.e2e.stacks import LiveStack, live_stack, write_config
from tests.e2e.test_docker_rollouts import containers
from tests.e2e.test_stack_rollouts import write_task
from tests.kube.cluster import Cluster
from tests.kube.fixtures import cluster, fake_nodes
from tests.unit.orchestrator.runners import processes_with
from tests.waiting import eventually, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

__all__ = ["cluster", "docker_engine", "fake_nodes"]

ROLLOUTS = 3
WITHIN_S = 60.0
LEASE_S = 4.0
BACKENDS = ["local", pytest.param("docker", marks=pytest.mark.real)]


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    if request.param == "docker":
        request.getfixturevalue("docker_engine")
    return str(request.param)


@asynccontextmanager
async def hanging(folder: Path, backend: str) -> AsyncIterator[tuple[LiveStack, str]]:
    """A stack whose agents hang, and a text in the command line of each of them; it is killed when this is left."""
    mark = f"hang-{secrets.token_hex(6)}"
    task = write_task(folder, "t", f"sh -c 'sleep 500; : {mark}'", "")
    lines = f'[orchestrator]\nbackend = "{backend}"\nwork_root = "{folder}"\n[orchestrator.stages]\nlease_s = {LEASE_S}\n'
    async with live_stack(write_config(folder, lines)) as stack:
        await ask(stack, task)
        await until(lambda: agents(mark) == ROLLOUTS, 400.0)
        yield stack, mark


def agents(mark: str) -> int:
    """Of how many agents there are processes with a text in their command line: one that is another's child is of the same."""
    found = set(processes_with(mark))
    parents = []
    for pid in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            parents.append(psutil.Process(pid).ppid())
    return sum(parent not in found for parent in parents)


async def ask(stack: LiveStack, task: Path) -> None:
    """Asks for the rollouts."""
    for n in range(ROLLOUTS):
        run = stack.config.run.id
        names = {"run_id": run, "rollout_id": f"{run}-r{n}", "group_id": f"{run}-g", "group_size": ROLLOUTS}
        await stack.bus.publish(RolloutStart(task_dir=str(task), harness="react", **names))  # type: ignore[arg-type]


async def test_a_killed_supervisor_leaves_no_sandbox(tmp_path: Path, backend: str) -> None:
    async with hanging(tmp_path, backend) as (stack, mark):
        family, run = stack.descendants(), stack.config.run.id
        stack.process.kill()
        await stack.process.wait()
        _, alive = await asyncio.to_thread(psutil.wait_procs, family, WITHIN_S)
        assert not alive
        assert processes_with(mark) == []
        assert not (tmp_path / f"openforge-{run}").exists()
        if backend == "docker":
            assert containers(run) == []


async def test_a_killed_supervisor_whose_orchestrator_is_killed_too_leaves_nothing_that_runs(
    tmp_path: Path, backend: str
) -> None:
    async with hanging(tmp_path, backend) as (stack, mark):
        family, run = stack.descendants(), stack.config.run.id
        stack.process.send_signal(signal.SIGSTOP)  # or it would start another one
        stack.service("orchestrator").kill()
        stack.process.kill()
        await stack.process.wait()
        _, alive = await asyncio.to_thread(psutil.wait_procs, family, WITHIN_S)
        assert not alive
        await until(lambda: processes_with(mark) == [], WITHIN_S)
        if backend == "docker":
            await until(lambda: not containers(run, "--filter", "status=running"), WITHIN_S)
            await asyncio.to_thread(remove, containers(run))


@pytest.mark.fleet
@pytest.mark.real
async def test_a_killed_supervisor_leaves_no_pod(tmp_path: Path, fake_nodes: Cluster) -> None:
    namespace = f"client-{secrets.token_hex(4)}"
    lines = f"""
[orchestrator]
backend = "kubernetes"
[orchestrator.kubernetes]
kubeconfig = "{fake_nodes.kubeconfig}"
namespace = "{namespace}"
proxy_url = "http://10.9.9.9:8080"
"""
    async with await api_of(fake_nodes) as api:
        pods = Pods(api, namespace)
        await pods.make()
        async with live_stack(write_config(tmp_path, lines)) as stack:
            await ask(stack, write_task(tmp_path, "t", "true", ""))

            async def all_run() -> bool:
                return await pods.running() == ROLLOUTS

            await eventually(all_run, 120.0)
            family = stack.descendants()
            stack.process.kill()
            await stack.process.wait()
            _, alive = await asyncio.to_thread(psutil.wait_procs, family, WITHIN_S)
            assert not alive
            assert await pods.all() == []


def remove(names: list[str]) -> None:
    """Removes containers that ended."""
    subprocess.run(["docker", "rm", *names], check=True, capture_output=True)
