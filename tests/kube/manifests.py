"""What `kubectl kustomize` makes of the folders under k8s/, and what the pods of it are."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kube.cluster import BUILT, NOT_BUILT, REPO

Manifest = dict[str, Any]
K8S = REPO / "k8s"
KUBECTL = BUILT.parent / "bin/kubectl"
OVERLAYS = ("overlays/kind", "overlays/gpu")
OUR_IMAGES = ("openforge-services", "openforge-learner")


def need_kubectl() -> None:
    """Skips the test, by name, where there is no kubectl; with CI=true it fails."""
    if not KUBECTL.exists():
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(NOT_BUILT)


def kubectl(*args: str, kubeconfig: Path | None = None, given: str = "") -> str:
    """What kubectl prints; asserts that it succeeds."""
    env = os.environ | ({"KUBECONFIG": str(kubeconfig)} if kubeconfig else {})
    done = subprocess.run([KUBECTL, *args], env=env, input=given, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@cache
def rendered(folder: str) -> tuple[Manifest, ...]:
    """The manifests of a folder under k8s/, or of any other."""
    need_kubectl()
    return tuple(yaml.safe_load_all(kubectl("kustomize", str(K8S / folder))))


def of_kind(manifests: Iterable[Manifest], *kinds: str) -> Iterator[Manifest]:
    """Those of some kinds."""
    return (each for each in manifests if each["kind"] in kinds)


def workloads(manifests: Iterable[Manifest]) -> dict[str, Manifest]:
    """What makes pods, by name."""
    return {each["metadata"]["name"]: each for each in of_kind(manifests, "Deployment", "StatefulSet")}


def pod_specs(manifests: Iterable[Manifest]) -> dict[str, Manifest]:
    """The pods that are made, by the name of what makes them."""
    return {name: each["spec"]["template"]["spec"] for name, each in workloads(manifests).items()}


def containers(spec: Manifest) -> list[Manifest]:
    """All containers of a pod."""
    return [*spec.get("initContainers", []), *spec["containers"]]


def data_of(manifests: Iterable[Manifest], name: str) -> dict[str, str]:
    """What a generated ConfigMap holds; its name ends in a hash."""
    [found] = [each for each in of_kind(manifests, "ConfigMap") if each["metadata"]["name"].rpartition("-")[0] == name]
    return dict(found["data"])
