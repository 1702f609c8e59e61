"""Fixtures around a real Kubernetes: where none is built, tests are skipped by name; with CI=true they fail."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kubernetes_asyncio import client, config

from services.orchestrator.backends.kubernetes.backend import KubernetesBackend
from services.orchestrator.backends.kubernetes.podspec import Place
from services.orchestrator.backends.port import Box
from shared.config import KubernetesConfig, ResourcesConfig
from tests.kube.cluster import BUILT, NOT_BUILT, Cluster
from tests.kube.images import harness_image, task_image

MakeBackend = Callable[..., KubernetesBackend]
ENTRY = ("/openforge/run",)
SMALL = ResourcesConfig(cpus=0.01, memory_mb=32)
PROXY = "http://10.9.9.9:8080"
FAKE, REAL = ["fake=yes"], ["kubernetes.io/hostname=localhost"]
"""Selectors of nodes: one cluster has both kinds."""
DO = "do"
"""Label of a box with what its runner does, on the real node."""


class Told:
    """A depot without a proxy: what its label tells a runner to do is its ticket. None of them leaves anything."""

    def __init__(self, otherwise: str = "nothing") -> None:
        self._otherwise = otherwise

    async def put(self, box: Box) -> str:
        return box.labels.get(DO, self._otherwise)

    async def left(self, session: str, path: str) -> bytes:
        return b""


@contextmanager
def control_plane(folder: Path, *, audited: bool = False) -> Iterator[Cluster]:
    """A control plane without nodes; `audited` has its API server note every pod that is made."""
    if not BUILT.exists():
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(NOT_BUILT)
    made = Cluster(folder)
    if audited:
        made.audit()
    try:
        made.up()
        yield made
    finally:
        made.down()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control plane without nodes."""
    with control_plane(tmp_path_factory.mktemp("kubernetes")) as made:
        yield made


@pytest.fixture(scope="session")
def fake_nodes(cluster: Cluster) -> Iterator[Cluster]:
    """The control plane, with nodes that only say that they run pods."""
    with cluster.fake_nodes("--nodes", "2"):
        yield cluster


@pytest.fixture(scope="session")
def real_node(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """The control plane, with a real node and its images; the runner in them is a shell that does what it is told."""
    if os.geteuid():
        pytest.skip("a node takes root")
    folder = tmp_path_factory.mktemp("images")
    cluster.node()
    task_image(folder / "task.tar", folder)
    harness_image(folder / "harness.tar", folder, '#!/bin/sh\neval "$OPENFORGE_TICKET"\n')
    for archive in ("task.tar", "harness.tar"):
        cluster.load(folder / archive)
    return cluster


@pytest.fixture
async def admin(cluster: Cluster) -> AsyncIterator[client.CoreV1Api]:
    """Whoever may do everything in the cluster."""
    configuration = client.Configuration()
    await config.load_kube_config(str(cluster.kubeconfig), client_configuration=configuration)
    async with client.ApiClient(configuration) as api:
        yield client.CoreV1Api(api)


@pytest.fixture
async def namespace(admin: client.CoreV1Api) -> AsyncIterator[str]:
    """A namespace of the test's own, with what pods need of it."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    await admin.create_namespace({"metadata": {"name": name}})
    yield name
    await admin.delete_namespace(name)


@pytest.fixture
async def make_backend(cluster: Cluster, namespace: str) -> AsyncIterator[MakeBackend]:
    """Backends of the namespace that are closed afterwards, of fake nodes unless they say otherwise; each has to be opened."""
    made = []

    def make(run_id: str = "run1", **settings: Any) -> KubernetesBackend:
        fields = {"kubeconfig": str(cluster.kubeconfig), "namespace": namespace, "node_selector": FAKE, **settings}
        place = Place(run_id, KubernetesConfig(**fields), SMALL, ENTRY)
        made.append(KubernetesBackend(place, PROXY, Told()))
        return made[-1]

    yield make
    for backend in made:
        await backend.close()
