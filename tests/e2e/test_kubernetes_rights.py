"""k8s/overlays/kind on a real API server of Kubernetes 1.20: it is taken, and the orchestrator does its work as the service
account of the manifests, with their rights and no other, under their quota."""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from kubernetes_asyncio import client

from services.dev.keys import make_keys
from shared.events import RolloutCancel
from tests.e2e.fleet import Fleet, fleet
from tests.e2e.pods import Orchestrator, Pods, api_of, ask, expected, said, told
from tests.e2e.test_stack_rollouts import write_task
from tests.kube.cluster import REPO, Cluster
from tests.kube.fixtures import cluster, fake_nodes
from tests.kube.manifests import K8S, KUBECTL, OVERLAYS, kubectl, need_kubectl, of_kind, pod_specs, rendered, workloads
from tests.waiting import eventually

pytestmark = [pytest.mark.fleet, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(400)]

__all__ = ["cluster", "fake_nodes"]

OVERLAY = "overlays/kind"
SYSTEM, ROLLOUTS = "openforge", "openforge-rollouts"
AT_ONCE, ASKED, CANCELLED = 8, 13, "r5"
"""Of 2 GiB each, which is what the settings give a sandbox, the quota of 16 GiB lets eight run."""
PATIENCE_S = 150.0
DENIED = (
    ("GET", f"/api/v1/namespaces/{SYSTEM}/pods"),
    ("POST", f"/api/v1/namespaces/{SYSTEM}/pods"),
    ("GET", f"/api/v1/namespaces/{SYSTEM}/secrets"),
    ("GET", f"/api/v1/namespaces/{ROLLOUTS}/secrets"),
    ("GET", f"/api/v1/namespaces/{ROLLOUTS}/configmaps"),
    ("GET", f"/api/v1/namespaces/{ROLLOUTS}/resourcequotas"),
    ("POST", f"/api/v1/namespaces/{ROLLOUTS}/pods/any/exec?command=id&container=agent&stdout=true"),
    ("GET", f"/api/v1/namespaces/{ROLLOUTS}/pods/any/exec?command=id&container=agent&stdout=true"),
    ("POST", f"/api/v1/namespaces/{ROLLOUTS}/pods/any/portforward"),
    ("POST", f"/api/v1/namespaces/{ROLLOUTS}/pods/any/binding"),
    ("DELETE", f"/api/v1/namespaces/{ROLLOUTS}/pods"),
    ("POST", f"/api/v1/namespaces/{ROLLOUTS}/serviceaccounts/default/token"),
    ("DELETE", f"/apis/networking.k8s.io/v1/namespaces/{ROLLOUTS}/networkpolicies/rollouts"),
    ("PATCH", f"/apis/rbac.authorization.k8s.io/v1/namespaces/{ROLLOUTS}/roles/openforge-orchestrator"),
    ("GET", "/api/v1/pods"),
    ("GET", "/api/v1/nodes"),
    ("GET", "/api/v1/namespaces"),
)
ALLOWED = ("GET", f"/api/v1/namespaces/{ROLLOUTS}/pods")


@pytest.fixture(scope="module")
def applied(fake_nodes: Cluster) -> Iterator[Cluster]:
    """The cluster with the overlay in it."""
    need_kubectl()
    kubectl("apply", "--server-side", "-k", str(K8S / OVERLAY), kubeconfig=fake_nodes.kubeconfig)
    yield fake_nodes
    kubectl("delete", "namespace", SYSTEM, ROLLOUTS, "--wait=false", kubeconfig=fake_nodes.kubeconfig)


def account(applied: Cluster, name: str) -> Path:
    """A kubeconfig of a service account of the manifests."""
    token = kubectl("create", "token", name, "-n", SYSTEM, kubeconfig=applied.kubeconfig).strip()
    about = yaml.safe_load(applied.kubeconfig.read_text())
    about["users"] = [{"name": "admin", "user": {"token": token}}]
    file = applied.folder / f"{name}.kubeconfig"
    file.write_text(yaml.safe_dump(about))
    return file


async def test_every_pod_of_it_is_admitted_and_a_second_time_changes_nothing(applied: Cluster) -> None:
    wanted = set(workloads(rendered(OVERLAY)))
    async with await api_of(applied) as api:

        async def all_there() -> bool:
            pods = (await client.CoreV1Api(api).list_namespaced_pod(SYSTEM)).items
            return {pod.metadata.labels["app"] for pod in pods} == wanted

        await eventually(all_there, PATIENCE_S)
        made = [each.metadata.generation for each in (await client.AppsV1Api(api).list_namespaced_deployment(SYSTEM)).items]
        await asyncio.to_thread(kubectl, "apply", "--server-side", "-k", str(K8S / OVERLAY), kubeconfig=applied.kubeconfig)
        again = [each.metadata.generation for each in (await client.AppsV1Api(api).list_namespaced_deployment(SYSTEM)).items]
    assert made == again == [1] * len(list(of_kind(rendered(OVERLAY), "Deployment")))


async def test_the_orchestrators_account_may_do_nothing_but_its_pods_and_another_not_even_that(applied: Cluster) -> None:
    assert await answers(account(applied, "orchestrator"), [ALLOWED, *DENIED]) == [200, *[403] * len(DENIED)]
    assert await answers(account(applied, "proxy"), [ALLOWED]) == [403]


async def answers(kubeconfig: Path, asked: list[tuple[str, str]]) -> list[int]:
    """Codes that requests of a service account are answered with."""
    about = yaml.safe_load(kubeconfig.read_text())
    server, token = about["clusters"][0]["cluster"]["server"], about["users"][0]["user"]["token"]
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    headers = {"Authorization": f"Bearer {token}"}
    codes = []
    async with aiohttp.ClientSession(server, headers=headers, connector=aiohttp.TCPConnector(ssl=tls)) as session:
        for method, path in asked:
            async with session.request(method, path, json=None if method == "GET" else {}) as response:
                codes.append(response.status)
    return codes


async def test_every_secret_that_the_manifests_name_is_made_and_a_second_time_changes_none(
    applied: Cluster, tmp_path: Path
) -> None:
    make_keys(tmp_path / "keys")
    named = {
        volume["secret"]["secretName"] for folder in OVERLAYS for spec in pod_specs(rendered(folder)).values()
        for volume in spec["volumes"] if "secret" in volume
    }  # fmt: skip
    async with await api_of(applied) as api:
        core = client.CoreV1Api(api)
        made = []
        for _ in range(2):
            await asyncio.to_thread(give_keys, applied, tmp_path / "keys")
            secrets = {each.metadata.name: each.data for each in (await core.list_namespaced_secret(SYSTEM)).items}
            made.append({name: secrets[name] for name in (*named, "control")})
        users = await core.read_namespaced_config_map("openforge-users", SYSTEM)
    assert made[0] == made[1]
    assert set(made[0]["proxy-keys"]) == {"proxy.nk", "proxy.password"}
    assert len(base64.b64decode(made[0]["control"]["key"])) == 48
    assert set(users.data) == {"bus.conf", "store.acl"}


def give_keys(applied: Cluster, keys: Path) -> None:
    env = os.environ | {"KUBECONFIG": str(applied.kubeconfig), "PATH": f"{KUBECTL.parent}:{os.environ['PATH']}"}
    done = subprocess.run([REPO / "scripts/cluster-keys.sh", keys], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@dataclass
class World:
    """All that the rollouts need."""

    house: Fleet
    orchestrator: Orchestrator
    pods: Pods

    async def running(self, wanted: int) -> None:
        """Returns when so many pods run."""

        async def probe() -> bool:
            await asyncio.sleep(0.2)
            return await self.pods.running() == wanted

        await eventually(probe, PATIENCE_S)


@pytest.fixture
async def world(applied: Cluster, tmp_path: Path) -> AsyncIterator[World]:
    async with fleet(tmp_path, "record", ()) as house, await api_of(applied) as api:
        orchestrator = Orchestrator(tmp_path, house, account(applied, "orchestrator"), ROLLOUTS, ASKED)
        try:
            await orchestrator.start()
            yield World(house, orchestrator, Pods(api, ROLLOUTS))
        finally:
            await orchestrator.kill()


async def test_with_these_rights_rollouts_start_end_and_are_found_again(world: World, tmp_path: Path) -> None:
    task = write_task(tmp_path, "t", "true", "")
    await ask(world.house, task, AT_ONCE)
    await world.running(AT_ONCE)
    first = await world.pods.all()
    await world.orchestrator.kill()
    await world.pods.end([pod for pod in first if rollout_of(pod) in ("r1", "r2", "r3")])  # with nobody there to see it
    await world.orchestrator.start()
    await ask(world.house, task, ASKED - AT_ONCE, first=AT_ONCE)
    await world.running(AT_ONCE)  # the quota has the others wait
    run = world.house.config.run.id
    await world.house.bus.publish(RolloutCancel(run_id=run, rollout_id=CANCELLED, group_id="g0"))

    async def over() -> bool:
        await asyncio.sleep(0.3)
        pods = [pod for pod in await world.pods.all() if rollout_of(pod) != CANCELLED]
        await world.pods.end([pod for pod in pods if pod.status.phase == "Running"])
        return len((await told(world.house))[1]) == ASKED and not await world.pods.all()

    await eventually(over, PATIENCE_S)
    began, outcomes = await told(world.house)
    ends = {name: [said(outcome) for outcome in each] for name, each in outcomes.items()}
    assert ends == expected(world.orchestrator.config, ASKED) | {CANCELLED: [("Cancelled", 1, None)]}
    assert Counter(began) == {f"r{n}": 1 for n in range(ASKED)}


def rollout_of(pod: Any) -> str:
    return str(pod.metadata.annotations["openforge.dev/rollout"])
