"""docker-compose.yml and k8s/ say the same of the same servers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from services.orchestrator.backends.kubernetes.backend import NEEDED
from shared.config import ProxyConfig

VARIABLE = re.compile(r"\$[({](\w+)(?::\?[^})]*)?[)}]")
ASKED = re.compile(r"\$\{(\w+)")
REPO = Path(__file__).resolve().parents[3]
K8S = REPO / "k8s"
BASE, SANDBOXES = K8S / "base", K8S / "sandboxes"
SERVICES = yaml.safe_load((REPO / "docker-compose.yml").read_text())["services"]
OURS = {name: s for name, s in SERVICES.items() if s["image"].startswith("openforge-")}
LASTING = {name: s for name, s in OURS.items() if s["restart"] != "no"}


def containers(file: str) -> list[dict[str, Any]]:
    documents = yaml.safe_load_all((BASE / file).read_text())
    return [c for d in documents if d["kind"] == "StatefulSet" for c in d["spec"]["template"]["spec"]["containers"]]


@pytest.mark.parametrize("file", sorted(K8S.rglob("kustomization.yaml")), ids=lambda f: f.parent.name)
def test_kustomize_finds_every_file_and_leaves_none_out(file: Path) -> None:
    kustomization = yaml.safe_load(file.read_text())
    made = [f for g in kustomization.get("configMapGenerator", []) for f in [*g.get("files", []), *g.get("envs", [])]]
    patches = [p["path"] for p in kustomization.get("patches", []) if "path" in p]
    named = [*kustomization["resources"], *kustomization.get("components", []), *made, *patches]
    folders = [name for name in named if name.startswith("../")]
    assert all((file.parent / name / "kustomization.yaml").exists() for name in folders)
    assert {*named} - {*folders} == {f.name for f in file.parent.iterdir()} - {"kustomization.yaml"}


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
    service = SERVICES[name]
    assert container["image"] == service["image"].removesuffix("-alpine")  # which has what a health check takes
    assert [VARIABLE.sub(r"\1", word) for word in container["args"]] == [VARIABLE.sub(r"\1", w) for w in service["command"]]


def test_no_server_listens_beyond_this_machine_or_runs_with_rights() -> None:
    assert all(p.startswith("127.0.0.1:") for s in SERVICES.values() for p in s.get("ports", []))
    for container in [*containers("nats.yaml"), *containers("redis.yaml")]:
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["resources"]["limits"]["memory"]


def test_every_service_in_a_container_has_its_own_keys_and_nobody_elses() -> None:
    mounted = {
        name: {v["target"] for v in s.get("volumes", []) if isinstance(v, dict) and "KEYS" in v["source"]}
        for name, s in SERVICES.items()
    }
    for name in ("proxy", "orchestrator", "collector", "trainer"):
        assert mounted[name] == {f"/keys/{name}.nk", f"/keys/{name}.password"}
    assert mounted["openforge"] == {"/keys/cli.nk", "/keys/cli.password"}
    assert mounted["engine"] == mounted["prepare"] == set()


def test_our_containers_cannot_write_to_their_images_or_gain_rights() -> None:
    assert {"prepare", "engine", "proxy", "orchestrator", "collector", "trainer", "openforge", "keys"} < set(OURS)
    for service in OURS.values():
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["user"] == "${OPENFORGE_USER:-1000:1000}"
        assert not service.get("privileged")


@pytest.mark.parametrize("file", sorted((REPO / "docker").glob("*Dockerfile")), ids=lambda f: f.name)
def test_every_image_of_ours_ends_as_a_user_without_rights(file: Path) -> None:
    stages = re.split(r"^FROM .*$", file.read_text(), flags=re.M)[1:]
    begun = [stage for stage in stages if "ENTRYPOINT" in stage]
    assert begun
    assert all(re.findall(r"^USER (.*)$", stage, re.M)[-1] == "1000:1000" for stage in begun)


def test_what_stays_up_says_whether_it_is_well_and_is_started_again() -> None:
    assert len(LASTING) == 7
    for service in LASTING.values():
        assert service["restart"] == "unless-stopped"
        assert service["healthcheck"]["test"][0] == "CMD"


def test_who_needs_the_servers_waits_until_they_are_well() -> None:
    assert all(SERVICES[name]["healthcheck"]["test"][0] == "CMD" for name in ("nats", "redis"))
    for name in ("proxy", "orchestrator", "collector", "trainer", "openforge"):
        needed = SERVICES[name]["depends_on"]
        assert needed["nats"] == needed["redis"] == {"condition": "service_healthy"}


def test_a_service_has_longer_to_stop_than_it_takes_to_drain() -> None:
    assert int(SERVICES["proxy"]["stop_grace_period"].rstrip("s")) > 2 * ProxyConfig().drain_s


def test_files_of_this_machine_are_mounted_only_if_they_are_there() -> None:
    for service in SERVICES.values():
        for volume in service.get("volumes", []):
            if isinstance(volume, dict):
                assert volume["bind"] == {"create_host_path": False}
            else:
                assert volume.startswith(
                    ("./examples", "./k8s", "nats:", "redis:", "runs:", "models:", "sockets:", "prometheus:", "grafana:")
                )


def test_images_of_others_are_pinned() -> None:
    assert all(re.search(r":v?\d", s["image"]) for name, s in SERVICES.items() if name not in OURS)


def test_the_example_of_dotenv_names_all_that_is_asked_for_and_nothing_else() -> None:
    named = set(re.findall(r"^#? ?(\w+)=", (REPO / ".env.example").read_text(), re.M))
    asked = set(ASKED.findall((REPO / "docker-compose.yml").read_text()))
    assert named == {*asked, "COMPOSE_PROFILES"} - {"COMPOSE_PROJECT_NAME"}  # which compose itself sets


def test_a_plain_up_starts_everything_that_needs_no_gpu() -> None:
    plain = {name for name, s in SERVICES.items() if "profiles" not in s}
    assert plain == {"nats", "redis", "prepare", "engine", "proxy", "orchestrator", "collector", "trainer"}
    assert {name for name, s in SERVICES.items() if s.get("profiles") == ["gpu"]} == {"engine-gpu", "trainer-gpu"}
    assert {name for name, s in SERVICES.items() if s.get("profiles") == ["observability"]} == {"prometheus", "grafana"}


def test_prometheus_scrapes_every_service_where_it_answers() -> None:
    jobs = yaml.safe_load((REPO / "docker" / "prometheus.yml").read_text())["scrape_configs"]
    scraped = {name: found["port"] for job in jobs for found in job["dns_sd_configs"] for name in found["names"]}
    settings = SERVICES["proxy"]["environment"]
    control, metrics = int(settings["OPENFORGE__PROXY__CONTROL_PORT"]), int(settings["OPENFORGE__METRICS__PORT"])
    assert scraped == {"proxy": control, "orchestrator": metrics, "collector": metrics, "trainer": metrics, "engine": 8000}


def test_grafana_is_given_the_dashboard_and_the_prometheus_of_the_stack() -> None:
    mounted = {v["source"]: v["target"] for v in SERVICES["grafana"]["volumes"] if isinstance(v, dict)}
    provisioning = REPO / "docker" / "grafana"
    [provider] = yaml.safe_load((provisioning / "dashboards" / "openforge.yml").read_text())["providers"]
    [source] = yaml.safe_load((provisioning / "datasources" / "prometheus.yml").read_text())["datasources"]
    assert mounted == {"./docker/grafana": "/etc/grafana/provisioning", "./k8s/grafana": provider["options"]["path"]}
    assert source["url"].removeprefix("http://").split(":")[0] in SERVICES
    [asked] = [
        v
        for v in json.loads((REPO / "k8s" / "grafana" / "openforge.json").read_text())["templating"]["list"]
        if v["type"] == "datasource"
    ]
    assert asked["query"] == source["type"]
