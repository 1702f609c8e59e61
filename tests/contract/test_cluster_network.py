"""Who may reach whom by the network policies under k8s/, as a network reads them that enforces any: every pair, every port."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from services.orchestrator.backends.kubernetes.podnames import NETWORK
from tests.kube.manifests import OVERLAYS, Manifest, of_kind, pod_specs, rendered, workloads
from tests.kube.policies import Place, may_connect

pytestmark = [pytest.mark.fleet, pytest.mark.real]

HOME, ROLLOUTS = "openforge", "openforge-rollouts"
NATS, REDIS, ENGINE, CONTROL = ("nats", 4222), ("redis", 6379), ("engine", 8000), ("proxy", 8081)
REACHES = {
    "proxy": {NATS, REDIS, ENGINE}, "orchestrator": {NATS, REDIS, CONTROL}, "collector": {NATS, REDIS},
    "trainer": {NATS, REDIS, ENGINE}, "openforge": {NATS, REDIS, ENGINE}, "engine": set(),
}  # fmt: skip
AMONG_THEMSELVES = {"nats": {("nats", 6222)}, "redis": {REDIS}}
"""Servers, where there are several."""
OUTSIDE = {"internet": "1.1.1.1", "metadata": "169.254.169.254", "node": "192.168.1.10", "other": "10.0.0.9"}


class Network:
    """The pods of an overlay, a rollout's pod beside them, and what lies outside."""

    def __init__(self, overlay: tuple[Manifest, ...]) -> None:
        self._policies = list(of_kind(overlay, "NetworkPolicy"))
        self._namespaces = {
            each["metadata"]["name"]: each["metadata"].get("labels", {}) for each in of_kind(overlay, "Namespace")
        }
        self.pods = {
            name: self._pod(HOME, each["spec"]["template"]["metadata"]["labels"]) for name, each in workloads(overlay).items()
        }
        listened = {
            p["containerPort"] for s in pod_specs(overlay).values() for c in s["containers"] for p in c.get("ports", [])
        }
        self.ports = listened | {22, 80, 443, 6222, 6443, 10250}

    def rollout(self, network: str) -> Place:
        return self._pod(ROLLOUTS, {NETWORK: network})

    def _pod(self, namespace: str, labels: dict[str, str]) -> Place:
        return Place("10.244.0.7", labels, namespace, self._namespaces[namespace])

    def reached(self, one: Place) -> set[tuple[str, int]]:
        """What a pod may connect to, of all pods."""
        return {pair for pair, other in self._pairs() if self.may(one, other, pair[1])}

    def may(self, one: Place, other: Place, port: int, protocol: str = "TCP") -> bool:
        return may_connect(self._policies, one, other, port, protocol)

    def _pairs(self) -> Iterator[tuple[tuple[str, int], Place]]:
        return (((name, port), other) for name, other in self.pods.items() for port in self.ports)


@pytest.fixture(params=OVERLAYS)
def network(request: pytest.FixtureRequest) -> Network:
    return Network(rendered(request.param))


def test_a_rollouts_pod_reaches_the_models_of_the_proxy_and_nothing_else_by_no_port(network: Network) -> None:
    rollout = network.rollout("none")
    assert network.reached(rollout) == {("proxy", 8080)}
    others = [network.rollout("none"), network.rollout("public"), *(Place(ip) for ip in OUTSIDE.values())]
    for other in others:
        assert not any(network.may(rollout, other, port) for port in network.ports)
        assert not any(network.may(rollout, other, 53, protocol) for protocol in ("TCP", "UDP"))


def test_one_whose_task_asks_for_the_internet_reaches_that_and_nothing_private(network: Network) -> None:
    rollout = network.rollout("public")
    assert network.reached(rollout) == {("proxy", 8080)}
    for name, ip in OUTSIDE.items():
        assert network.may(rollout, Place(ip), 443) is (name == "internet")
        assert network.may(rollout, Place(ip), 53, "UDP")  # whoever the node's name server is
    assert not network.may(rollout, network.rollout("public"), 443)


def test_nobody_reaches_a_rollouts_pod(network: Network) -> None:
    for each in [*network.pods.values(), network.rollout("none"), *(Place(ip) for ip in OUTSIDE.values())]:
        assert not any(network.may(each, network.rollout("none"), port) for port in network.ports)


def test_services_reach_what_they_need_and_no_more(network: Network) -> None:
    for name, pod in network.pods.items():
        reached = network.reached(pod)
        if name in REACHES:
            assert reached == REACHES[name], name
        else:
            assert reached <= AMONG_THEMSELVES[name], name
        assert not any(network.may(Place(OUTSIDE["internet"]), pod, port) for port in network.ports)
        assert network.may(pod, Place(OUTSIDE["internet"]), 443) is (name == "orchestrator")  # an API server may be anywhere
