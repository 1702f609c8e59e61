"""k8s/overlays/kind as pods of a real node: servers and services become ready, and rollouts run in pods.

The engine is a scripted one beside the node, so that there is no trainer. The node has no DNS and no Services: their names lead
to this machine (`doors`), and so does the way to the API server, which the orchestrator takes as the manifests' own account.
"""

from __future__ import annotations

import asyncio
import contextlib
import posixpath
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from kubernetes_asyncio import client

from services.dev.keys import make_keys
from tests.contract.conftest import cluster, docker_engine, node_with_images, real_node
from tests.contract.docker_kit import IMAGE
from tests.e2e.pods import api_of
from tests.e2e.test_kubernetes_rights import ROLLOUTS, SYSTEM, give_keys
from tests.e2e.test_stack_rollouts import write_task
from tests.engine.scripted import ScriptedEngine
from tests.kube.cluster import Cluster
from tests.kube.doors import doors, fixed, pod_of
from tests.kube.kit import HARNESS
from tests.kube.manifests import K8S, Manifest, kubectl, need_kubectl
from tests.waiting import eventually, until

pytestmark = [pytest.mark.long, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]

__all__ = ["cluster", "docker_engine", "node_with_images", "real_node"]

STACK = ("nats", "redis", "proxy", "orchestrator", "collector", "openforge")
IMAGES = ("openforge-services:latest", "nats:2.10-alpine", "redis:7")
NAMES = ["nats", "redis", "engine-0.engine", "proxy", "proxy-control"]
CLAIMS = ("runs", "inputs", "data-nats-0", "data-redis-0")
API = 6443
FILE = "/etc/openforge/openforge.toml"
SANDBOXES = {"IMAGE": IMAGE, "HARNESS_IMAGE": HARNESS, "PULL_POLICY": "Never"}
START = """
import asyncio
from pathlib import Path
from services.app import open_bus
from services.dev.deployed.settings import deployed_config
from shared.events import RolloutFailed, RolloutFinished, RolloutStart, TrajectoryAssembled
from shared.subjects import tap_pattern

async def main():
    config, ended = deployed_config(Path("/etc/openforge/openforge.toml")), asyncio.Event()
    bus, run = await open_bus(config, "cli"), config.run.id

    async def listen():
        told = set()
        async for tapped in bus.tap(tap_pattern("evt", run)):
            match tapped.message:
                case RolloutFinished(rollout_id=rollout, reward=reward):
                    print("finished", rollout, reward, flush=True)
                case RolloutFailed() as failed:
                    print("failed", failed, flush=True)
                case TrajectoryAssembled(rollout_id=rollout):
                    told.add(rollout)
            if len(told) == 2:
                ended.set()

    listening = asyncio.create_task(listen())
    await asyncio.sleep(1)
    for n in range(2):
        about = {"rollout_id": f"one-{n}", "group_id": "one", "group_size": 2, "harness": "react"}
        await bus.publish(RolloutStart(run_id=run, task_dir="/inputs/tasks/write", **about))
    await asyncio.wait_for(ended.wait(), 100)

asyncio.run(main())
"""


def overlay(folder: Path, gateway: str) -> Path:
    """The overlay for this node: who is where, and what is not there."""
    (folder / "config").write_text(yaml.safe_dump(_way_to_the_api(gateway)))
    pod = {"hostAliases": [{"ip": gateway, "hostnames": NAMES}]}
    reach = {"name": "orchestrator", "env": [{"name": "KUBECONFIG", "value": "/cluster/config"}],
             "volumeMounts": [{"name": "cluster", "mountPath": "/cluster"}]}  # fmt: skip
    seen = {"containers": [reach], "volumes": [{"name": "cluster", "configMap": {"name": "cluster"}}]}
    variables = [f"OPENFORGE__ORCHESTRATOR__KUBERNETES__{name}={value}" for name, value in SANDBOXES.items()]
    kustomization = {
        "resources": [posixpath.relpath(K8S / "overlays/kind", folder)],
        "images": [{"name": "nats", "newTag": "2.10-alpine"}],
        "configMapGenerator": [
            {"name": "cluster", "namespace": SYSTEM, "files": ["config"]},
            {"name": "settings", "namespace": SYSTEM, "behavior": "merge", "literals": variables},
        ],
        "patches": [
            *({"target": {"kind": kind}, "patch": _patch(kind, "any", pod)} for kind in ("Deployment", "StatefulSet")),
            {"patch": _patch("StatefulSet", "orchestrator", seen)},
        ],
        "replicas": [{"name": name, "count": 0} for name in ("engine", "trainer")],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return folder


def _patch(kind: str, name: str, pod: Manifest) -> str:
    about = {"name": name, "namespace": SYSTEM}
    return str(yaml.safe_dump({"apiVersion": "apps/v1", "kind": kind, "metadata": about, "spec": {"template": {"spec": pod}}}))


def _way_to_the_api(gateway: str) -> Manifest:
    token = "/var/run/secrets/kubernetes.io/serviceaccount/token"
    where = {"server": f"https://{gateway}:{API}", "insecure-skip-tls-verify": True}
    return {
        "apiVersion": "v1", "kind": "Config", "current-context": "it",
        "clusters": [{"name": "it", "cluster": where}], "users": [{"name": "it", "user": {"tokenFile": token}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
    }  # fmt: skip


def give_volumes(node: Cluster) -> Path:
    """Folders of this machine for all claims; gives their place."""
    top = node.folder / "volumes"
    for claim in CLAIMS:
        (top / claim).mkdir(parents=True)
        (top / claim).chmod(0o777)
        spec = {"capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": str(top / claim)}}
        spec["claimRef"] = {"namespace": SYSTEM, "name": claim}
        volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": claim}, "spec": spec}
        kubectl("apply", "-f", "-", kubeconfig=node.kubeconfig, given=yaml.safe_dump(volume))
    return top


@pytest.fixture
def prepared(node_with_images: Cluster, tmp_path: Path) -> Iterator[Cluster]:
    """The node with the overlay, its images and keys, and a task."""
    node = node_with_images
    need_kubectl()
    saved = subprocess.run(
        ["docker", "save", "-o", tmp_path / "stack.tar", *IMAGES], capture_output=True, text=True, check=False
    )
    if saved.returncode:
        pytest.skip(f"{saved.stderr.strip()}: make images")
    node.load(tmp_path / "stack.tar")
    inputs = give_volumes(node) / "inputs"
    write_task(inputs / "tasks", "write", "cat seed.txt > out.txt", "seed")
    (inputs / "lookup/model").mkdir(parents=True)
    (inputs / "lookup/model/config.json").write_text("{}")
    make_keys(tmp_path / "keys")
    give_keys(node, tmp_path / "keys")
    kubectl("apply", "--server-side", "-k", str(overlay(tmp_path, node.gateway)), kubeconfig=node.kubeconfig)
    yield node
    kubectl("delete", "namespace", SYSTEM, ROLLOUTS, "--wait=false", kubeconfig=node.kubeconfig)


@pytest.fixture
async def applied(prepared: Cluster) -> AsyncIterator[Cluster]:
    """The same, with ways between all, and a scripted engine."""
    node, engine = prepared, ScriptedEngine()
    await engine.start()
    async with await api_of(node) as api:
        core = client.CoreV1Api(api)
        pods = {port: pod_of(core, SYSTEM, app, port) for app, port in (("nats", 4222), ("redis", 6379), ("proxy", 8080))}
        others = {8081: pod_of(core, SYSTEM, "proxy", 8081), 8000: fixed("127.0.0.1", urlsplit(engine.url).port or 0)}
        server = urlsplit(yaml.safe_load(node.kubeconfig.read_text())["clusters"][0]["cluster"]["server"])
        await until(lambda: is_ours(node.gateway), 120)
        async with doors(node.gateway, {**pods, **others, API: fixed("127.0.0.1", server.port or 0)}):
            yield node
    await engine.stop()


def is_ours(address: str) -> bool:
    """Whether this machine has an address: that of a bridge it has from the first pod on."""
    with contextlib.suppress(OSError), socket.create_server((address, 0)):
        return True
    return False


async def test_the_stack_becomes_ready_and_rollouts_run_in_pods(applied: Cluster) -> None:
    async with await api_of(applied) as api:
        core = client.CoreV1Api(api)

        async def all_ready() -> bool:
            pods = (await core.list_namespaced_pod(SYSTEM)).items
            ready = {p.metadata.labels["app"] for p in pods for c in p.status.container_statuses or [] if c.ready}
            return ready == set(STACK)

        await eventually(all_ready, 300)
        said = await asyncio.to_thread(command, applied, "python", "-", given=START)
        assert sorted(said.splitlines()) == ["finished one-0 1.0", "finished one-1 1.0"], said

        async def cleared() -> bool:
            return not (await core.list_namespaced_pod(ROLLOUTS)).items

        await eventually(cleared, 60)
    shown = await asyncio.to_thread(
        command, applied, "sh", "-c", f"id -u; touch /x 2>&1; openforge status --config {FILE}; true"
    )
    assert shown.startswith("1000\n")
    assert "/x': Read-only file system" in shown
    assert [line for line in shown.splitlines() if line.startswith("broken")] == ["broken: trainer: no such service is known"]


def command(applied: Cluster, *words: str, given: str = "") -> str:
    """What a command in the pod for people prints."""
    return kubectl("-n", SYSTEM, "exec", "-i", "openforge-0", "--", *words, kubeconfig=applied.kubeconfig, given=given)
