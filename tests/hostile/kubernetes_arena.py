"""Pods of a real node, with the real runner and a real proxy. The node's network enforces no policies."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from services.orchestrator.backends.kubernetes.backend import kubernetes_backend
from services.orchestrator.backends.port import Resources
from services.orchestrator.depot import Depot
from shared.config import Config, EngineConfig, KubernetesConfig, OrchestratorConfig, ProxyConfig, RunConfig
from shared.ids import new_run_id
from tests.contract.docker_kit import IMAGE
from tests.hostile.containers import Contained, cleared
from tests.kube.cluster import Cluster
from tests.kube.fixtures import REAL
from tests.kube.kit import HARNESS
from tests.unit.orchestrator.runners import Bench
from tests.unit.proxy.world import KEY, World


@asynccontextmanager
async def kubernetes_arena(
    bench: Bench, proxy: World, cluster: Cluster, namespace: str, resources: Resources
) -> AsyncIterator[Contained]:
    """An arena whose pod is gone afterwards. The proxy listens on all addresses of this machine."""
    port, control = (int(url.rpartition(":")[2]) for url in (proxy.proxy.url, proxy.proxy.control_url))
    settings = KubernetesConfig(
        kubeconfig=str(cluster.kubeconfig), namespace=namespace, image=IMAGE, harness_image=HARNESS, pull_policy="Never",
        proxy_url=f"http://{cluster.gateway}:{port}", node_selector=REAL,
    )  # fmt: skip
    config = Config(
        run=RunConfig(id=new_run_id()), engine=EngineConfig(url="http://127.0.0.1:9"),
        orchestrator=OrchestratorConfig(backend="kubernetes", kubernetes=settings),
    )  # fmt: skip
    depot = Depot(ProxyConfig(control_port=control), KEY)
    backend = kubernetes_backend(config, depot)
    await backend.open()
    async with cleared(backend, depot):
        arena = Contained(bench, backend, resources)
        arena.outside = cluster.gateway
        yield arena
