"""From a sandbox that is asked for to the pod that is it. Pure; nothing but stable fields of core/v1.

init `harness`   copies runner, its Python and the harness out of the harness image           -> /openforge
init `workdir`   copies the image's working folder to where a user that is not root may write
`agent`          the runner, in the task's image
"""

from __future__ import annotations

import math
import posixpath
from dataclasses import dataclass
from typing import Any

from services.orchestrator.backends.kubernetes.podnames import (
    DOMAIN,
    GROUP,
    IMAGE,
    NETWORK,
    RUN,
    SESSION,
    label_value,
    labels_of,
    pod_name,
)
from services.orchestrator.backends.port import Box, Resources
from services.orchestrator.harnesses.layout import ENTRY, TOOLS
from services.orchestrator.runner.inside import LEASE_VAR, PROXY_VAR, STATUS_VAR, TICKET_VAR
from shared.config import KubernetesConfig, ResourcesConfig
from shared.errors import TaskError

Manifest = dict[str, Any]
Folders = dict[str, tuple[str, str]]

MAIN = "agent"
MANAGER = "app.kubernetes.io/managed-by"
"""Label of all pods; its value is `openforge`."""
STATUS = "/dev/termination-log"
NO_HARNESS = "react"
"""Whose image is taken where there is no harness: it has the runner and nothing else."""
HOSTNAME = "sandbox"
"""Of all of them, since agents put it into their prompts."""
LOST_NODE_S = 60
"""How long a pod stays bound to a node that does not answer."""
GRACE_S = 10
"""Between asking a pod to end and killing it. Far more than the runner takes to end all the rest."""
END_NOW_S = 1
"""A pod's deadline, once it was asked to end."""
ROOT_CAPABILITIES = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID"]
"""Those without which root cannot do what tasks want root for: install packages, change owners, become another user."""
FOLDERS: Folders = {
    "logs": ("/logs", "1Gi"), "tests": ("/tests", "2Gi"), "tmp": ("/tmp", "8Gi"), "home": ("/home/agent", "8Gi"),
}  # fmt: skip
"""Folders that every pod has of its own, with the size at which it is put out of its node."""
WORK = "work"
"""The folder that a working folder is copied to."""
WORK_SIZE, OPENFORGE_SIZE = "16Gi", "8Gi"

# Entry by entry: the folder itself belongs to root, so that its own times and mode cannot be set.
_COPY = """for f in "$1"/* "$1"/.[!.]* "$1"/..?*; do
  if [ -e "$f" ] || [ -L "$f" ]; then cp -a "$f" "$2/" || exit 1; fi
done"""


@dataclass(frozen=True, slots=True)
class Place:
    """What the pods of a run have in common.

    Attributes:
        run: id of the run.
        settings: how pods look here.
        defaults: resources of a sandbox whose task does not say.
        entry: program of the runner and its arguments, as seen in a pod.
    """

    run: str
    settings: KubernetesConfig
    defaults: ResourcesConfig
    entry: tuple[str, ...] = ENTRY


def pod(box: Box, place: Place, proxy: str, ticket: str) -> Manifest:
    """The manifest of a box.

    Args:
        box: what is asked for.
        place: of the run.
        proxy: where pods reach it, `tcp:host:port`.
        ticket: that its runner shows the proxy.

    Raises:
        TaskError: it names a user that has no number.
    """
    settings = place.settings
    image, uid = box.image or settings.image, _uid(box.user, settings.uid)
    work = _work_folder(box) if uid else ""
    size = _resources(box.resources, place.defaults)
    main = {
        "name": MAIN, "image": image, "imagePullPolicy": settings.pull_policy, "command": list(place.entry),
        "env": [
            {"name": PROXY_VAR, "value": proxy}, {"name": TICKET_VAR, "value": ticket}, {"name": STATUS_VAR, "value": STATUS},
            {"name": LEASE_VAR, "value": f"{box.spec['lease_s']:g}"},
        ],
        "resources": size, "securityContext": _container_rights(uid), "volumeMounts": _mounts(work, _folders(box)),
        "workingDir": _start_folder(box, work, uid), "terminationMessagePath": STATUS, "terminationMessagePolicy": "File",
    }  # fmt: skip
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": pod_name(place.run, box.name), "namespace": settings.namespace,
            "labels": {
                **labels_of(box.labels, box.name), MANAGER: "openforge",
                RUN: label_value(place.run), IMAGE: label_value(image), NETWORK: box.network,
            },
            "annotations": {SESSION: box.name} | {DOMAIN + key: value for key, value in box.labels.items()},
        },
        "spec": {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": max(1, math.ceil(box.deadline_s)),
            "terminationGracePeriodSeconds": GRACE_S,
            "hostname": HOSTNAME, "automountServiceAccountToken": False, "enableServiceLinks": False,
            **_network(box), **_placement(box, settings, image),
            "securityContext": _pod_rights(uid),
            "initContainers": _inits(box, settings, image, work, size, uid),
            "containers": [main],
            "volumes": _volumes(work, _folders(box), box.resources.storage_mb),
        },
    }  # fmt: skip


def _uid(user: str, default: int) -> int:
    name = user.partition(":")[0]
    if name in ("", "root"):
        return 0 if name else default
    if not name.isdecimal():
        raise TaskError(f"user {user!r}: pods know users by number alone; give the number that the image has for it, or 'root'")
    return int(name)


def _work_folder(box: Box) -> str:
    """The working folder, if it has to be made writable: it is no folder that the pod has of its own anyhow."""
    folder = posixpath.normpath(box.spec["phases"][0]["cwd"])
    own = [path for path, _ in FOLDERS.values()]
    return "" if folder == "/" or any(folder == path or folder.startswith(path + "/") for path in own) else folder


def _start_folder(box: Box, work: str, uid: int) -> str:
    """Where commands begin: in the working folder. One that is not there would be made, and belong to root."""
    folder = posixpath.normpath(box.spec["phases"][0]["cwd"])
    own = [path for path, _ in FOLDERS.values() if folder == path or folder.startswith(path + "/")]
    return folder if work or not uid else (own or ["/"])[0]


def _resources(wanted: Resources, defaults: ResourcesConfig) -> Manifest:
    """Requests equal limits: what a sandbox was promised is what it can use, on a busy node and on an idle one."""
    size = {}
    if cpus := wanted.cpus or defaults.cpus:
        size["cpu"] = f"{max(1, round(cpus * 1000))}m"
    if memory_mb := wanted.memory_mb or defaults.memory_mb:
        size["memory"] = f"{memory_mb}Mi"
    if storage_mb := wanted.storage_mb or defaults.storage_mb:
        size["ephemeral-storage"] = f"{storage_mb}Mi"
    return {"requests": size, "limits": dict(size)}


def _pod_rights(uid: int) -> Manifest:
    rights: Manifest = {"runAsUser": uid, "runAsGroup": uid, "seccompProfile": {"type": "RuntimeDefault"}}
    return rights | {"runAsNonRoot": True, "fsGroup": uid} if uid else rights


def _container_rights(uid: int) -> Manifest:
    capabilities: Manifest = {"drop": ["ALL"]}
    if not uid:
        capabilities["add"] = ROOT_CAPABILITIES
    return {"allowPrivilegeEscalation": False, "privileged": False, "capabilities": capabilities}


def _network(box: Box) -> Manifest:
    """Whoever may reach the proxy alone has nobody to ask for names either. A network policy bars the rest."""
    if box.network == "public":
        return {"dnsPolicy": "Default"}
    return {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["127.0.0.1"]}}


def _placement(box: Box, settings: KubernetesConfig, image: str) -> Manifest:
    placed: Manifest = {"affinity": _near_its_image(box, image), "tolerations": _tolerations(settings)}
    if settings.node_selector:
        placed["nodeSelector"] = dict(pair.split("=", 1) for pair in settings.node_selector)
    if settings.runtime_class:
        placed["runtimeClassName"] = settings.runtime_class
    if settings.pull_secrets:
        placed["imagePullSecrets"] = [{"name": name} for name in settings.pull_secrets]
    return placed


def _near_its_image(box: Box, image: str) -> Manifest:
    """With large images nearly all of the time is their pull: a group's pods go where the first one of it went."""
    near = [(IMAGE, image, 50)]
    if group := box.labels.get("group"):
        near.insert(0, (GROUP, group, 100))
    terms = [
        {"weight": weight, "podAffinityTerm": {
            "topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {label: label_value(value)}},
        }}
        for label, value, weight in near
    ]  # fmt: skip
    return {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}


def _tolerations(settings: KubernetesConfig) -> list[Manifest]:
    lost = [
        {"key": f"node.kubernetes.io/{why}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": LOST_NODE_S}
        for why in ("not-ready", "unreachable")
    ]
    return lost + [_toleration(text) for text in settings.tolerations]


def _toleration(text: str) -> Manifest:
    """`key=value:Effect`, `key:Effect` or `key`."""
    taint, _, effect = text.partition(":")
    key, equals, value = taint.partition("=")
    match: Manifest = {"key": key, "operator": "Equal", "value": value} if equals else {"key": key, "operator": "Exists"}
    return match | ({"effect": effect} if effect else {})


def _folders(box: Box) -> Folders:
    """Those of `FOLDERS` that it gets. The tests of a verifier in a pod of its own may be its image's."""
    first = box.spec["phases"][0]
    own_tests = first["name"] == "verify" and FOLDERS["tests"][0] not in first["fresh"]
    return {name: about for name, about in FOLDERS.items() if not (own_tests and name == "tests")}


def _mounts(work: str, folders: Folders) -> list[Manifest]:
    mounts: list[Manifest] = [{"name": "openforge", "mountPath": TOOLS, "readOnly": True}]
    mounts += [{"name": name, "mountPath": path} for name, (path, _) in folders.items()]
    return mounts + ([{"name": WORK, "mountPath": work}] if work else [])


def _volumes(work: str, folders: Folders, storage_mb: int | None) -> list[Manifest]:
    sizes = {"openforge": OPENFORGE_SIZE} | {name: size for name, (_, size) in folders.items()}
    if work:
        sizes[WORK] = f"{storage_mb}Mi" if storage_mb else WORK_SIZE
    return [{"name": name, "emptyDir": {"sizeLimit": size}} for name, size in sizes.items()]


def _inits(box: Box, settings: KubernetesConfig, image: str, work: str, size: Manifest, uid: int) -> list[Manifest]:
    harness = settings.harness_image.replace("{harness}", box.harness or NO_HARNESS)
    copies = [("harness", harness, TOOLS, "openforge")]
    if work:
        copies.append(("workdir", image, work, WORK))
    return [
        {
            "name": name, "image": source, "imagePullPolicy": settings.pull_policy,
            "command": ["/bin/sh", "-c", _COPY, "copy", folder, "/copy"],
            "resources": size, "securityContext": _container_rights(uid),
            "volumeMounts": [{"name": volume, "mountPath": "/copy"}],
            "terminationMessagePolicy": "FallbackToLogsOnError",
        }
        for name, source, folder, volume in copies
    ]  # fmt: skip
