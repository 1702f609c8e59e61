"""Two hundred pods of a real API server; the orchestrator, or the API server, is killed with -9 while they run."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.fleet import Fleet, fleet
from tests.e2e.pods import Orchestrator, Pods, api_of, ask, end_of, expected, said, told
from tests.e2e.test_stack_rollouts import write_task
from tests.kube.cluster import Cluster
from tests.kube.fixtures import control_plane
from tests.waiting import eventually

pytestmark = [pytest.mark.fleet, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]

PODS = 200
PATIENCE_S = 300.0


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with nodes that only say that they run pods, whose API server notes each pod that it makes."""
    with control_plane(tmp_path_factory.mktemp("kubernetes"), audited=True) as made, made.fake_nodes("--nodes", "2"):
        yield made


@dataclass
class World:
    """All that a test needs, with two hundred pods that run."""

    cluster: Cluster
    house: Fleet
    orchestrator: Orchestrator
    pods: Pods
    uids: dict[str, str]

    async def close(self) -> None:
        """The rollouts are over and none of their pods is left; asserts what the bus and the audit say of them."""

        async def over() -> bool:
            await asyncio.sleep(0.5)
            return len((await told(self.house))[1]) == PODS and not await self.pods.all()

        await eventually(over, PATIENCE_S)
        began, outcomes = await told(self.house)
        assert {name: [said(o) for o in each] for name, each in outcomes.items()} == expected(self.orchestrator.config, PODS)
        assert all(end_of(name).detail in getattr(each[0], "detail", "") for name, each in outcomes.items())
        assert Counter(began) == {f"r{n}": 1 for n in range(PODS)}
        assert sorted(self.cluster.made_pods(self.pods.namespace)) == sorted(self.uids.items())


@pytest.fixture
async def world(audited: Cluster, tmp_path: Path) -> AsyncIterator[World]:
    namespace = f"fleet-{uuid.uuid4().hex[:8]}"
    async with fleet(tmp_path, "record", ()) as house, await api_of(audited) as api:
        pods = Pods(api, namespace)
        await pods.make()
        orchestrator = Orchestrator(tmp_path, house, audited.kubeconfig, namespace, PODS)
        try:
            await orchestrator.start()
            await ask(house, write_task(tmp_path, "t", "true", ""), PODS)

            async def all_run() -> bool:
                await asyncio.sleep(0.5)
                return await pods.running() == PODS

            await eventually(all_run, PATIENCE_S)
            uids = {pod.metadata.name: pod.metadata.uid for pod in await pods.all()}
            yield World(audited, house, orchestrator, pods, uids)
        finally:
            await orchestrator.kill()


async def test_a_killed_orchestrators_two_hundred_pods_are_all_adopted(world: World) -> None:
    running = await world.pods.all()
    await world.orchestrator.kill()
    await world.pods.end(running[: PODS // 2])  # with nobody there to see it
    await world.orchestrator.start()
    await world.pods.end(running[PODS // 2 :])
    await world.close()


async def test_an_api_server_that_is_killed_in_mid_watch_loses_none_of_two_hundred_pods(world: World) -> None:
    running = await world.pods.all()
    await world.pods.end(running[: PODS // 4])
    world.cluster.kill("apiserver")
    await asyncio.to_thread(world.cluster.up)
    await world.pods.end(running[PODS // 4 :])
    await world.close()
    assert world.orchestrator.lives
