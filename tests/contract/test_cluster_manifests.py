"""The manifests under k8s/ as kustomize makes them: valid, locked down, and of one mind with the code."""

from __future__ import annotations

import posixpath
import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from services.dev.deployed.settings import deployed_config
from shared.bus.rights import RIGHTS, durable_name
from shared.bus.streams import STREAMS, stream_of
from shared.config import Config
from shared.subjects import pattern_of
from tests.kube.cluster import REPO
from tests.kube.manifests import (
    K8S,
    OUR_IMAGES,
    OVERLAYS,
    Manifest,
    containers,
    data_of,
    of_kind,
    pod_specs,
    rendered,
    workloads,
)

pytestmark = [pytest.mark.fleet, pytest.mark.real]

ALL = ("base", "sandboxes", *OVERLAYS)
OURS = ("proxy", "orchestrator", "collector", "trainer", "openforge")
KEYS = {"openforge": "cli"}
"""Users of bus and store whose name is not the pod's."""
CRD = REPO / "tests/kube/keda/scaledobjects.yaml"


@pytest.fixture(params=OVERLAYS)
def overlay(request: pytest.FixtureRequest) -> tuple[Manifest, ...]:
    """What an overlay comes to."""
    return rendered(request.param)


@pytest.fixture
def settings(overlay: tuple[Manifest, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    """The settings that its services read."""
    for name, value in data_of(overlay, "settings").items():
        monkeypatch.setenv(name, value)
    file = tmp_path / "openforge.toml"
    file.write_text(data_of(overlay, "run")["openforge.toml"])
    return deployed_config(file)


@pytest.mark.parametrize("version", ["1.25", "1.37"])
@pytest.mark.parametrize("folder", ALL)
def test_what_kustomize_makes_is_valid_by_the_oldest_and_the_newest_schema(folder: str, version: str) -> None:
    for each in rendered(folder):
        if each["kind"] != "ScaledObject":
            kubernetes_validate.validate(each, version, strict=True)


def test_scaled_objects_are_valid_by_kedas_own_schema() -> None:
    [version] = [v for v in yaml.safe_load(CRD.read_text())["spec"]["versions"] if v["name"] == "v1alpha1"]
    schema = _strict(version["schema"]["openAPIV3Schema"])
    scaled = list(of_kind(rendered("overlays/gpu"), "ScaledObject"))
    assert len(scaled) == 2
    for each in scaled:
        jsonschema.validate(each, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**scaled[0], "spec": {**scaled[0]["spec"], "minReplicas": 2}}, schema)


def _strict(schema: Any) -> Any:
    """As an API server takes it: it knows no other fields than those that are named."""
    if isinstance(schema, list):
        return [_strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {"additionalProperties": False} if "properties" in schema and "additionalProperties" not in schema else {}
    return {key: _strict(value) for key, value in schema.items()} | closed


def test_the_component_without_keda_scales_the_same_services(tmp_path: Path) -> None:
    folder = posixpath.relpath(K8S, tmp_path)
    (tmp_path / "kustomization.yaml").write_text(
        f"resources: [{folder}/base, {folder}/sandboxes]\ncomponents: [{folder}/components/hpa]\n"
    )
    scaled = list(of_kind(rendered(str(tmp_path)), "HorizontalPodAutoscaler"))
    for each in scaled:
        kubernetes_validate.validate(each, "1.37", strict=True)
    by_keda = {each["metadata"]["name"] for each in of_kind(rendered("overlays/gpu"), "ScaledObject")}
    assert {each["spec"]["scaleTargetRef"]["name"] for each in scaled} == by_keda == {"proxy", "collector"}
    assert not any("replicas" in workloads(rendered("overlays/gpu"))[name]["spec"] for name in by_keda)


def test_its_settings_are_those_of_a_stack_on_a_cluster(overlay: tuple[Manifest, ...], settings: Config) -> None:
    assert settings.orchestrator.backend == "kubernetes"
    [namespace] = {each["metadata"]["namespace"] for each in of_kind(overlay, "Role")}
    assert settings.orchestrator.kubernetes.namespace == namespace
    services = {each["metadata"]["name"]: each for each in of_kind(overlay, "Service")}
    assert settings.orchestrator.kubernetes.proxy_url == f"http://proxy:{settings.proxy.port}"
    assert [p["port"] for p in services["proxy"]["spec"]["ports"]] == [settings.proxy.port]
    assert [p["port"] for p in services[settings.proxy.host]["spec"]["ports"]] == [settings.proxy.control_port]
    assert settings.bus.replicas == workloads(overlay)["nats"]["spec"].get("replicas", 1)
    urls = [f"http://engine-{n}.engine:8000" for n in range(workloads(overlay)["engine"]["spec"]["replicas"])]
    assert settings.engine.addresses == urls
    for path in (settings.engine.model, settings.tasks.train):
        assert path.startswith("/inputs/")
    assert settings.run.root == "/runs"


def test_the_learner_gets_the_gpus_that_its_settings_name(settings: Config, overlay: tuple[Manifest, ...]) -> None:
    limits = pod_specs(overlay)["trainer"]["containers"][0]["resources"]["limits"]
    wanted = settings.trainer.parallel.n_gpus_per_node if settings.trainer.parallel.nnodes else 0
    assert int(limits.get("nvidia.com/gpu", 0)) == wanted


def test_a_small_cluster_trains_what_the_example_does() -> None:
    ours = tomllib.loads(data_of(rendered("overlays/kind"), "run")["openforge.toml"])
    example = tomllib.loads((REPO / "examples/lookup/openforge.toml").read_text())
    for section in ("engine", "trainer"):
        assert example[section].items() <= _without(ours[section], "rows", "cache").items()


def _without(section: dict[str, Any], *names: str) -> dict[str, Any]:
    return {
        key: _without(value, *names) if isinstance(value, dict) else value
        for key, value in section.items() if key not in names
    }  # fmt: skip


def test_what_scales_collectors_is_how_far_their_consumers_lag(overlay: tuple[Manifest, ...], settings: Config) -> None:
    triggers = [
        trigger["metadata"] for each in of_kind(overlay, "ScaledObject") if each["metadata"]["name"] == "collector"
        for trigger in each["spec"]["triggers"]
    ]  # fmt: skip
    consumers = {durable_name(name, settings.run.id): types for name, types in RIGHTS["collector"].consumes.items()}
    for trigger in triggers:
        streams = {stream_of(pattern_of(kind, "r", "k")) for kind in consumers[trigger["consumer"]]}
        assert trigger["stream"] in {stream.name for stream in STREAMS if stream in streams}
        port = int(trigger["natsServerMonitoringEndpoint"].rpartition(":")[2])
        [nats] = [each for each in of_kind(overlay, "Service") if each["metadata"]["name"] == "nats"]
        assert port in [p["port"] for p in nats["spec"]["ports"]]


def test_no_pod_has_rights_that_it_does_not_need(overlay: tuple[Manifest, ...]) -> None:
    accounts = {each["metadata"]["name"]: each for each in of_kind(overlay, "ServiceAccount")}
    for name, spec in pod_specs(overlay).items():
        assert (spec["serviceAccountName"], spec["enableServiceLinks"]) == (name, False)
        assert spec["automountServiceAccountToken"] is (name == "orchestrator")
        assert accounts[name]["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in containers(spec):
            rights = container["securityContext"]
            assert rights == {
                "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
            }  # fmt: skip
            assert container["resources"]["limits"]["memory"]
            assert container["resources"]["requests"]["cpu"]
        assert {next(iter(volume.keys() - {"name"})) for volume in spec.get("volumes", [])} <= {
            "configMap", "secret", "emptyDir", "persistentVolumeClaim",
        }  # fmt: skip


def test_every_service_has_its_own_keys_and_only_they_have_the_control_key(overlay: tuple[Manifest, ...]) -> None:
    for name, spec in pod_specs(overlay).items():
        secrets = {volume["secret"]["secretName"] for volume in spec.get("volumes", []) if "secret" in volume}
        copies = {"replica-keys"} if workloads(overlay)[name]["spec"].get("replicas") == 3 and name == "redis" else set()
        assert secrets == ({f"{KEYS.get(name, name)}-keys"} if name in OURS else copies)
        named = {each["name"] for container in containers(spec) for each in container.get("env", []) if "valueFrom" in each}
        assert ("OPENFORGE_CONTROL_KEY" in named) is (name in ("proxy", "orchestrator"))


def test_every_service_says_how_it_does_and_has_time_to_end(overlay: tuple[Manifest, ...], settings: Config) -> None:
    for name in set(OURS) - {"openforge"}:
        spec = pod_specs(overlay)[name]
        [container] = spec["containers"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        ready = "/healthz" if name == "proxy" else "/readyz"  # a proxy without an engine holds calls
        for probe, path in (("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", ready)):
            asked = container[probe]["httpGet"]
            wanted = settings.proxy.control_port if name == "proxy" else settings.metrics.port
            assert (asked["path"], ports[asked["port"]]) == (path, wanted)
            assert container[probe]["timeoutSeconds"] >= 5  # docs/observability.md
        assert container["args"][:2] == ["serve", name]
        assert spec["terminationGracePeriodSeconds"] > 2 * settings.proxy.drain_s + 5


def test_services_and_policies_mean_pods_and_ports_that_there_are(overlay: tuple[Manifest, ...]) -> None:
    apps = {each["spec"]["template"]["metadata"]["labels"]["app"] for each in workloads(overlay).values()}
    ports = {
        name: {port["name"]: port["containerPort"] for container in spec["containers"] for port in container.get("ports", [])}
        for name, spec in pod_specs(overlay).items()
    }
    for service in of_kind(overlay, "Service"):
        for port in service["spec"]["ports"]:
            assert ports[service["spec"]["selector"]["app"]][port["targetPort"]] == port["port"]
    said = yaml.safe_dump([each["spec"] for each in of_kind(overlay, "NetworkPolicy")])
    named = {*re.findall(r"app: (\w+)", said), *re.findall(r"- ([a-z]+)$", said, re.MULTILINE)}
    assert named <= apps
    assert {"nats", "redis", "engine", "proxy", "orchestrator"} <= named


def test_a_rollout_reaches_the_port_of_the_proxies_models_and_nothing_else(
    overlay: tuple[Manifest, ...], settings: Config
) -> None:
    policies = {each["metadata"]["name"]: each["spec"] for each in of_kind(overlay, "NetworkPolicy")}
    assert policies["rollouts"]["podSelector"] == {}
    assert policies["rollouts"]["ingress"] == []
    [egress] = policies["rollouts"]["egress"]
    assert egress["ports"] == [{"protocol": "TCP", "port": settings.proxy.port}]
    [to] = egress["to"]
    assert to["podSelector"]["matchLabels"]["app"] == "proxy"
    namespaces = {each["metadata"]["name"]: each["metadata"]["labels"] for each in of_kind(overlay, "Namespace")}
    assert to["namespaceSelector"]["matchLabels"].items() <= namespaces["openforge"].items()
    let_in = [rule for rule in policies["proxy"]["ingress"] if "namespaceSelector" in rule["from"][0]]
    assert [rule["ports"] for rule in let_in] == [egress["ports"]]
    assert policies["nothing"]["podSelector"] == {}
    assert policies["nothing"]["policyTypes"] == ["Ingress", "Egress"]


def test_images_are_our_two_and_those_of_compose(overlay: tuple[Manifest, ...]) -> None:
    compose = yaml.safe_load((REPO / "docker-compose.yml").read_text())["services"]
    for name, spec in pod_specs(overlay).items():
        for container in containers(spec):
            if name in ("nats", "redis"):
                assert container["image"] == compose[name]["image"].removesuffix("-alpine")
            else:
                assert re.split("[:-]gpu|:", container["image"].rpartition("/")[2])[0] in OUR_IMAGES
