"""The kit of Kubernetes: pods on a real node, with the real runner, which fetches its work from a real proxy."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
from kubernetes_asyncio import client, config

from services.orchestrator.backends.kubernetes.backend import kubernetes_backend
from services.orchestrator.backends.kubernetes.podnames import pod_name
from services.orchestrator.backends.port import Backend
from services.orchestrator.depot import Depot
from shared.config import KubernetesConfig, OrchestratorConfig, ProxyConfig
from tests.contract.docker_kit import IMAGE, DockerKit
from tests.kube.cluster import REPO, Cluster
from tests.kube.fixtures import REAL

HARNESS = "openforge-harness-react:latest"


class KubernetesKit(DockerKit):
    """Pods of one run."""

    def __init__(self, folder: Path, cluster: Cluster, namespace: str) -> None:
        super().__init__(folder)
        self._cluster, self._namespace = cluster, namespace
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        settings = KubernetesConfig(
            kubeconfig=str(cluster.kubeconfig), namespace=namespace, image=IMAGE, harness_image=HARNESS, pull_policy="Never",
            proxy_url=f"http://{cluster.gateway}:{port}", node_selector=REAL,
        )  # fmt: skip
        self._config = msgspec.structs.replace(
            self._config, proxy=ProxyConfig(host="0.0.0.0", port=port),
            orchestrator=OrchestratorConfig(backend="kubernetes", kubernetes=settings),
        )  # fmt: skip

    def made(self, depot: Depot) -> Backend:
        """See `DockerKit.made`."""
        return kubernetes_backend(self._config, depot)

    async def vanish(self, name: str) -> None:
        configuration = client.Configuration()
        await config.load_kube_config(str(self._cluster.kubeconfig), client_configuration=configuration)
        async with client.ApiClient(configuration) as api:
            pod = pod_name(self._config.run.id, name)
            await client.CoreV1Api(api).delete_namespaced_pod(pod, self._namespace, grace_period_seconds=0)

    async def interrupt(self) -> None:
        self._cluster.kill("apiserver")
        await asyncio.to_thread(self._cluster.up)


def load_images(cluster: Cluster, folder: Path) -> None:
    """Gives the node what sandboxes are made of, out of the docker engine."""
    subprocess.run(
        [sys.executable, "-m", "services.cli", "harness", "image", "react"], check=True, capture_output=True, cwd=REPO
    )
    archive = folder / "images.tar"
    subprocess.run(["docker", "save", "-o", archive, IMAGE, HARNESS], check=True, capture_output=True)
    cluster.load(archive)
    archive.unlink()
