"""What network policies say, as a network that enforces them reads them: who may connect to whom."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.kube.manifests import Manifest


@dataclass(frozen=True)
class Place:
    """A pod, or an address outside of the cluster.

    Attributes:
        ip: its address.
        labels: of the pod.
        namespace: that it is in; empty outside.
        namespace_labels: of that.
    """

    ip: str
    labels: Mapping[str, str] = field(default_factory=dict)
    namespace: str = ""
    namespace_labels: Mapping[str, str] = field(default_factory=dict)


def may_connect(policies: Iterable[Manifest], one: Place, other: Place, port: int, protocol: str = "TCP") -> bool:
    """Whether the policies of both sides let a connection be."""
    every = list(policies)
    out = _may(every, "Egress", one, other, port, protocol)
    return out and _may(every, "Ingress", other, one, port, protocol)


def _may(policies: list[Manifest], way: str, mine: Place, peer: Place, port: int, protocol: str) -> bool:
    """By the policies that select a pod; where none does everything may be."""
    binding = [each for each in policies if mine.namespace and _binds(each, way, mine)]
    rules = [(each, rule) for each in binding for rule in each["spec"].get(way.lower(), [])]
    side = "to" if way == "Egress" else "from"
    return not binding or any(
        _names_port(rule.get("ports"), port, protocol) and _names_peer(rule.get(side), peer, each["metadata"]["namespace"])
        for each, rule in rules
    )


def _binds(policy: Manifest, way: str, mine: Place) -> bool:
    spec = policy["spec"]
    ways = spec.get("policyTypes", ["Ingress", "Egress"] if "egress" in spec else ["Ingress"])
    return way in ways and policy["metadata"]["namespace"] == mine.namespace and _selects(spec["podSelector"], mine.labels)


def _names_port(ports: list[dict[str, Any]] | None, port: int, protocol: str) -> bool:
    return not ports or any(each.get("port", port) == port and each.get("protocol", "TCP") == protocol for each in ports)


def _names_peer(peers: list[dict[str, Any]] | None, peer: Place, own: str) -> bool:
    return not peers or any(_is_peer(each, peer, own) for each in peers)


def _is_peer(said: dict[str, Any], peer: Place, own: str) -> bool:
    if block := said.get("ipBlock"):
        address = ipaddress.ip_address(peer.ip)
        left_out = any(address in ipaddress.ip_network(each) for each in block.get("except", []))
        return address in ipaddress.ip_network(block["cidr"]) and not left_out
    if not peer.namespace:
        return False
    in_namespace = (
        _selects(said["namespaceSelector"], peer.namespace_labels) if "namespaceSelector" in said else peer.namespace == own
    )
    return in_namespace and _selects(said.get("podSelector", {}), peer.labels)


def _selects(selector: dict[str, Any], labels: Mapping[str, str]) -> bool:
    wanted = selector.get("matchLabels", {})
    return wanted.items() <= labels.items() and all(
        _meets(each, labels.get(each["key"])) for each in selector.get("matchExpressions", [])
    )


def _meets(said: dict[str, Any], value: str | None) -> bool:
    match said["operator"]:
        case "In":
            return value in said["values"]
        case "NotIn":
            return value not in said["values"]
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    raise ValueError(f"there is no operator {said['operator']!r}")
