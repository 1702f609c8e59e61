"""docker-compose.yml and k8s/ say the same of the same servers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

VARIABLE = re.compile(r"\$[({](\w+)(?::\?[^})]*)?[)}]")
REPO = Path(__file__).resolve().parents[3]
BASE = REPO / "k8s" / "base"
COMPOSE = yaml.safe_load((REPO / "docker-compose.yml").read_text())


def containers(file: str) -> list[dict[str, Any]]:
    documents = yaml.safe_load_all((BASE / file).read_text())
    return [c for d in documents if d["kind"] == "StatefulSet" for c in d["spec"]["template"]["spec"]["containers"]]


def test_kustomize_finds_every_file_and_leaves_none_out() -> None:
    kustomization = yaml.safe_load((BASE / "kustomization.yaml").read_text())
    named = {*kustomization["resources"], *(f for g in kustomization["configMapGenerator"] for f in g["files"])}
    assert named == {f.name for f in BASE.iterdir()} - {"kustomization.yaml"}


@pytest.mark.parametrize("name", ["nats", "redis"])
def test_compose_and_cluster_run_the_same_program(name: str) -> None:
    [container] = containers(f"{name}.yaml")
    service = COMPOSE["services"][name]
    assert container["image"] == service["image"]
    assert [VARIABLE.sub(r"\1", word) for word in container["args"]] == [VARIABLE.sub(r"\1", w) for w in service["command"]]


def test_no_server_listens_beyond_this_machine_or_runs_with_rights() -> None:
    assert all(p.startswith("127.0.0.1:") for s in COMPOSE["services"].values() for p in s["ports"])
    for container in [*containers("nats.yaml"), *containers("redis.yaml")]:
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["resources"]["limits"]["memory"]
