"""docker-compose.yml and k8s/ say the same of the same servers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from services.orchestrator.backends.kubernetes.backend import NEEDED

VARIABLE = re.compile(r"\$[({](\w+)(?::\?[^})]*)?[)}]")
REPO = Path(__file__).resolve().parents[3]
BASE, SANDBOXES = REPO / "k8s" / "base", REPO / "k8s" / "sandboxes"
COMPOSE = yaml.safe_load((REPO / "docker-compose.yml").read_text())


def containers(file: str) -> list[dict[str, Any]]:
    documents = yaml.safe_load_all((BASE / file).read_text())
    return [c for d in documents if d["kind"] == "StatefulSet" for c in d["spec"]["template"]["spec"]["containers"]]


@pytest.mark.parametrize("folder", [BASE, SANDBOXES], ids=lambda f: f.name)
def test_kustomize_finds_every_file_and_leaves_none_out(folder: Path) -> None:
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    named = {*kustomization["resources"], *(f for g in kustomization.get("configMapGenerator", []) for f in g["files"])}
    assert named == {f.name for f in folder.iterdir()} - {"kustomization.yaml"}


@pytest.mark.parametrize("version", ["1.25", "1.37"])
def test_the_place_of_rollouts_is_valid_by_the_oldest_and_the_newest_schema(version: str) -> None:
    for file in SANDBOXES.glob("[!k]*.yaml"):
        for document in yaml.safe_load_all(file.read_text()):
            kubernetes_validate.validate(document, version, strict=True)


def test_the_orchestrator_may_do_what_it_asks_for_and_no_more() -> None:
    role, _ = yaml.safe_load_all((SANDBOXES / "rights.yaml").read_text())
    granted = {
        (verb, resource.removeprefix("pods").removeprefix("/"))
        for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]
    }  # fmt: skip
    assert granted == set(NEEDED)


@pytest.mark.parametrize("name", ["nats", "redis"])
def test_compose_and_cluster_run_the_same_program(name: str) -> None:
    [container] = containers(f"{name}.yaml")
    service = COMPOSE["services"][name]
    assert container["image"] == service["image"]
    assert [VARIABLE.sub(r"\1", word) for word in container["args"]] == [VARIABLE.sub(r"\1", w) for w in service["command"]]


def test_no_server_listens_beyond_this_machine_or_runs_with_rights() -> None:
    assert all(p.startswith("127.0.0.1:") for s in COMPOSE["services"].values() for p in s.get("ports", []))
    for container in [*containers("nats.yaml"), *containers("redis.yaml")]:
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["resources"]["limits"]["memory"]


def test_every_service_in_a_container_has_its_own_keys_and_nobody_elses() -> None:
    mounted = {name: {v.split(":")[-2] for v in s.get("volumes", []) if "KEYS" in v} for name, s in COMPOSE["services"].items()}
    for name in ("proxy", "orchestrator", "collector", "trainer"):
        assert mounted[name] == {f"/keys/{name}.nk", f"/keys/{name}.password"}
    assert mounted["openforge"] == {"/keys/cli.nk", "/keys/cli.password"}
    assert mounted["engine"] == mounted["prepare"] == set()


def test_our_containers_cannot_write_to_their_images_or_gain_rights() -> None:
    for name in ("prepare", "engine", "proxy", "orchestrator", "collector", "trainer", "openforge", "keys"):
        service = COMPOSE["services"][name]
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert not service.get("privileged")
