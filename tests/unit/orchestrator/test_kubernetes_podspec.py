"""The pod that a sandbox is."""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.orchestrator.backends.kubernetes.podspec import Place, pod
from services.orchestrator.backends.port import Box, Resources
from shared.config import KubernetesConfig, ResourcesConfig
from shared.errors import TaskError
from tests.kube.boxes import box

ENTRY = ("/openforge/run", "--now")
RICH = KubernetesConfig(
    pull_secrets=["s1"], node_selector=["pool=rl", "gpu="], tolerations=["rl=yes:NoSchedule", "spot:NoExecute", "any"],
    runtime_class="gvisor",
)  # fmt: skip


def made(asked: Box | None = None, settings: KubernetesConfig | None = None) -> dict[str, Any]:
    return pod(
        asked or box(),
        Place("run1", settings or KubernetesConfig(), ResourcesConfig(memory_mb=700), ENTRY),
        "tcp:10.0.0.1:80",
        "t",
    )


def containers(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    return [*manifest["spec"]["initContainers"], *manifest["spec"]["containers"]]


@pytest.mark.parametrize("version", ["1.25", "1.37"])
@pytest.mark.parametrize("settings", [KubernetesConfig(), RICH], ids=["plain", "rich"])
def test_it_is_valid_by_the_oldest_and_the_newest_schema(version: str, settings: KubernetesConfig) -> None:
    asked = box(resources=Resources(0.5, 512, 100, 64), network="public", user="root")
    for each in (asked, box()):
        kubernetes_validate.validate(made(each, settings), version, strict=True)


def test_what_it_asks_for_is_what_it_may_use() -> None:
    for container in containers(made(box(resources=Resources(cpus=0.25, memory_mb=300, storage_mb=50)))):
        size = container["resources"]
        assert size["requests"] == size["limits"] == {"cpu": "250m", "memory": "300Mi", "ephemeral-storage": "50Mi"}
        assert size["requests"] is not size["limits"]
    assert made()["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "1000m", "memory": "700Mi"}


@given(st.sampled_from(["", "0", "1", "1000", "1000:1000", "root", "65534"]))
def test_nobody_is_root_unless_the_task_asks_for_root(user: str) -> None:
    spec = made(box(user=user))["spec"]
    rights = spec["securityContext"]
    if user in ("0", "root"):
        assert (rights["runAsUser"], rights.get("runAsNonRoot")) == (0, None)
    else:
        assert rights["runAsUser"] == int(user.partition(":")[0] or 65534)
        assert rights["runAsNonRoot"] is True
    assert rights["seccompProfile"] == {"type": "RuntimeDefault"}


@pytest.mark.parametrize("user", ["", "root"])
def test_no_container_can_gain_rights(user: str) -> None:
    for container in containers(made(box(user=user))):
        rights = container["securityContext"]
        assert (rights["allowPrivilegeEscalation"], rights["privileged"]) == (False, False)
        assert rights["capabilities"]["drop"] == ["ALL"]
        assert bool(rights["capabilities"].get("add")) == (user == "root")


def test_a_user_without_a_number_is_refused() -> None:
    with pytest.raises(TaskError, match="number"):
        made(box(user="alice"))


def test_it_knows_nothing_of_the_cluster() -> None:
    spec = made()["spec"]
    assert (spec["automountServiceAccountToken"], spec["enableServiceLinks"]) == (False, False)
    assert (spec["restartPolicy"], spec["activeDeadlineSeconds"]) == ("Never", 86_400)
    assert (spec["dnsPolicy"], spec["dnsConfig"]) == ("None", {"nameservers": ["127.0.0.1"]})
    assert made(box(network="public"))["spec"]["dnsPolicy"] == "Default"
    assert not {"hostNetwork", "hostPID", "hostIPC", "serviceAccountName"} & set(spec)


def test_the_runner_finds_its_ticket_and_the_harness_which_it_cannot_change() -> None:
    spec = made()["spec"]
    [main], harness = spec["containers"], spec["initContainers"][0]
    env = {each["name"]: each["value"] for each in main["env"]}
    assert main["command"] == list(ENTRY)
    assert env == {
        "OPENFORGE_PROXY": "tcp:10.0.0.1:80", "OPENFORGE_TICKET": "t", "OPENFORGE_STATUS": main["terminationMessagePath"],
        "OPENFORGE_LEASE": "600",
    }  # fmt: skip
    assert {"name": "openforge", "mountPath": "/openforge", "readOnly": True} in main["volumeMounts"]
    assert (harness["image"], harness["volumeMounts"]) == (
        "openforge-harness-react:latest", [{"name": "openforge", "mountPath": "/copy"}],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("workdir", "user", "mounted"),
    [
        ("/app", "", True), ("/srv/it/", "", True), ("/tmpx", "", True),
        ("/app", "root", False), ("/", "", False), ("/tmp/x", "", False), ("/home/agent", "", False),
    ],
)  # fmt: skip
def test_the_working_folder_is_copied_to_where_it_can_be_written(workdir: str, user: str, mounted: bool) -> None:
    spec = made(box(workdir=workdir, user=user))["spec"]
    inits = [c["name"] for c in spec["initContainers"]]
    assert inits == (["harness", "workdir"] if mounted else ["harness"])
    mounts = {m["name"]: m["mountPath"] for m in spec["containers"][0]["volumeMounts"]}
    assert mounts.get("work") == (workdir.rstrip("/") if mounted else None)


def test_every_folder_is_mounted_once_and_has_a_size() -> None:
    spec = made()["spec"]
    [main] = spec["containers"]
    paths = [m["mountPath"] for m in main["volumeMounts"]]
    assert sorted(paths) == ["/app", "/home/agent", "/logs", "/openforge", "/tests", "/tmp"]
    assert {m["name"] for m in main["volumeMounts"]} == {v["name"] for v in spec["volumes"]}
    assert all(v["emptyDir"]["sizeLimit"] for v in spec["volumes"])


def test_a_verifier_that_brings_its_tests_has_no_empty_folder_in_their_place() -> None:
    asked = box()
    asked.spec["phases"][0]["name"] = "verify"
    mounts = {mount["mountPath"] for mount in made(asked)["spec"]["containers"][0]["volumeMounts"]}
    asked.spec["phases"][0]["fresh"] = ["/tests"]
    assert {mount["mountPath"] for mount in made(asked)["spec"]["containers"][0]["volumeMounts"]} - mounts == {"/tests"}


def test_a_groups_pods_want_to_be_where_its_image_is() -> None:
    first, second = made()["spec"]["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    selectors = [term["podAffinityTerm"]["labelSelector"]["matchLabels"] for term in (first, second)]
    assert first["weight"] > second["weight"]
    labels = made()["metadata"]["labels"]
    assert all(labels[key] == value for selector in selectors for key, value in selector.items())


def test_it_goes_where_the_settings_say() -> None:
    spec = made(settings=RICH)["spec"]
    assert spec["nodeSelector"] == {"pool": "rl", "gpu": ""}
    assert spec["runtimeClassName"] == "gvisor"
    assert spec["imagePullSecrets"] == [{"name": "s1"}]
    assert spec["tolerations"][2:] == [
        {"key": "rl", "operator": "Equal", "value": "yes", "effect": "NoSchedule"},
        {"key": "spot", "operator": "Exists", "effect": "NoExecute"},
        {"key": "any", "operator": "Exists"},
    ]


def test_the_same_box_is_the_same_pod() -> None:
    assert made() == made()
    assert made()["metadata"]["name"] == "openforge-run1.g1-0-a1"
