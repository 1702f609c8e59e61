"""What the configuration says of where sandboxes are made, and as whom programs run there."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.orchestrator.backends.kubernetes.podspec import Place, pod
from services.orchestrator.site import site_of
from shared.config import Config, DockerConfig, KubernetesConfig, OrchestratorConfig, ProxyConfig
from shared.errors import ConfigError
from tests.kube.boxes import box

OF_PODS, OF_OTHERS = 2001, 3001


def config(backend: str, socket: str = "") -> Config:
    orchestrator = OrchestratorConfig(
        backend=backend,  # type: ignore[arg-type]
        uid=OF_OTHERS, kubernetes=KubernetesConfig(uid=OF_PODS), docker=DockerConfig(host="unix:///no/such.sock"),
    )  # fmt: skip
    return Config(orchestrator=orchestrator, proxy=ProxyConfig(socket=socket))


def test_agents_in_pods_run_as_the_user_of_their_pods() -> None:
    settings = config("kubernetes")
    isolation, _ = site_of(settings, "key").place("r1-a1")
    orchestrator = settings.orchestrator
    made = pod(
        box(), Place("run1", orchestrator.kubernetes, orchestrator.resources, ("/openforge/run",)), "tcp:10.0.0.1:80", "t"
    )
    assert isolation.owner == str(made["spec"]["securityContext"]["runAsUser"]) == str(OF_PODS)


async def test_agents_in_containers_run_as_the_configured_user(tmp_path: Path) -> None:
    site = site_of(config("docker", socket=str(tmp_path / "proxy.sock")), "key")
    assert site.place("r1-a1")[0].owner == str(OF_OTHERS)
    await site.backend.close()


async def test_containers_need_to_know_where_the_socket_of_the_proxy_is() -> None:
    with pytest.raises(ConfigError, match=r"proxy\.socket"):
        site_of(config("docker"), "key")
