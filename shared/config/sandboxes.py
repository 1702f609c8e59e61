"""Settings of sandboxes: how long their stages may take, and where they run."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from shared.config.base import Count, NonNegative, Positive, Section, Whole

Label = Annotated[str, Meta(pattern=r"^[^=]+=[^=]*$")]
Toleration = Annotated[str, Meta(pattern=r"^[^:=]+(=[^:=]*)?(:(NoSchedule|PreferNoSchedule|NoExecute))?$")]


class StagesConfig(Section, frozen=True, kw_only=True):
    """Limits in seconds of the stages of an attempt before its agent runs, and of an agent that does nothing or is forgotten.

    Attributes:
        schedule_s: until a machine was found for the sandbox.
        pull_s: until its image is there.
        boot_s: until its runner runs.
        idle_s: an agent without any model call for so long is ended like one that is out of time; 0 for no such limit.
        lease_s: a sandbox whose agent's calls go through its runner, and whose proxy is away for so long, ends itself; 0 for no
            such limit.
    """

    schedule_s: Positive = 300.0
    pull_s: Positive = 900.0
    boot_s: Positive = 60.0
    idle_s: NonNegative = 0.0
    lease_s: NonNegative = 600.0


class AutoConfig(Section, frozen=True, kw_only=True):
    """How the wall-clock limit of agents is learned, for each harness and family of tasks.

    Attributes:
        quantile: share of the agents that must have had time to end by themselves.
        factor: by which the limit is above the time that they took.
        sample: agents that must have ended before their times are gone by.
        floor_s: the limit is never lower, in seconds; `orchestrator.timeout_s` is what it never exceeds.
    """

    quantile: Annotated[float, Meta(gt=0, lt=1)] = 0.9
    factor: Annotated[float, Meta(gt=1)] = 2.0
    sample: Count = 20
    floor_s: Positive = 60.0


class ResourcesConfig(Section, frozen=True, kw_only=True):
    """What one sandbox may use when its task does not say; 0 for no limit.

    Attributes:
        cpus: cores.
        memory_mb: MiB of memory.
        storage_mb: MiB of disk.
        pids: processes and threads.
    """

    cpus: NonNegative = 1.0
    memory_mb: Whole = 2048
    storage_mb: Whole = 0
    pids: Whole = 512


class DockerConfig(Section, frozen=True, kw_only=True):
    """Sandboxes as containers of a docker engine.

    Attributes:
        host: address of the engine; empty takes $DOCKER_HOST, else /var/run/docker.sock.
        image: for tasks that name neither an image nor a Dockerfile.
        socket_volume: folder on the engine's machine, or named volume, with the proxies' unix sockets in it; empty takes
            the folder of `proxy.socket`.
        images_days: images that were built here for tasks and harnesses go, when an orchestrator starts, once they were not
            used for so many days; 0 for never.
        images_gb: and, the longest unused first, as many as they have beyond so many GB, but those of the last day; 0 for no
            limit.
    """

    host: str = ""
    image: str = "python:3.11-slim"
    socket_volume: str = ""
    images_days: NonNegative = 14.0
    images_gb: NonNegative = 50.0


class KubernetesConfig(Section, frozen=True, kw_only=True):
    """Sandboxes as pods.

    Attributes:
        kubeconfig: file; empty takes $KUBECONFIG, else ~/.kube/config, else the pod's own service account.
        context: of that file; empty takes its current one.
        namespace: that the pods are made in.
        image: for tasks that name no image.
        harness_image: image that brings runner and harness; `{harness}` stands for the harness's name.
        pull_secrets: names of image pull secrets.
        pull_policy: of all images.
        node_selector: labels that a node must have, as `label=value`.
        tolerations: taints that pods accept, as `key=value:Effect`, `key:Effect` or `key`.
        runtime_class: for sandboxed runtimes (gVisor, Kata).
        proxy_url: where pods reach the proxy; empty takes `proxy.host` and `proxy.port`.
        uid: user and group id of pods whose task names no user.
        unschedulable_s: seconds for which the cluster may find no node for a pod; an autoscaler needs minutes.
    """

    kubeconfig: str = ""
    context: str = ""
    namespace: str = "openforge-rollouts"
    image: str = "python:3.11-slim"
    harness_image: str = "openforge-harness-{harness}:latest"
    pull_secrets: list[str] = []
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    node_selector: list[Label] = []
    tolerations: list[Toleration] = []
    runtime_class: str = ""
    proxy_url: str = ""
    uid: Count = 65534
    unschedulable_s: Positive = 240.0
