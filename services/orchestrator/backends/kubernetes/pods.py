"""Pods as the API server tells of them: the parts of core/v1 that are read here, validated at the door."""

from __future__ import annotations

import datetime as dt

import msgspec


class Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A piece of an object; fields that are not named here are skipped."""


class Metadata(Part, frozen=True, kw_only=True):
    """Of an object. `deletion_timestamp` is when it should be gone at the latest, grace included."""

    name: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    creation_timestamp: dt.datetime | None = None
    deletion_timestamp: dt.datetime | None = None


class Waiting(Part, frozen=True, kw_only=True):
    """Why a container does not run yet."""

    reason: str = ""
    message: str = ""


class Running(Part, frozen=True, kw_only=True):
    """A container runs."""

    started_at: dt.datetime | None = None


class Terminated(Part, frozen=True, kw_only=True):
    """How a container ended; `message` is what it left in its termination log."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""


class ContainerState(Part, frozen=True, kw_only=True):
    """One of the three is there."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Part, frozen=True, kw_only=True):
    """How a container is. `image_id` is its image's digest, once it is on the node."""

    name: str
    image: str = ""
    image_id: str = msgspec.field(default="", name="imageID")
    state: ContainerState = ContainerState()


class Condition(Part, frozen=True, kw_only=True):
    """One of a pod's conditions, as of `last_transition_time`."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: dt.datetime | None = None


class PodStatus(Part, frozen=True, kw_only=True):
    """How a pod is; `reason` is said of pods that were put out."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    conditions: list[Condition] = []
    init_container_statuses: list[ContainerStatus] = []
    container_statuses: list[ContainerStatus] = []


class Resources(Part, frozen=True, kw_only=True):
    """What a container may use at most, by resource: `cpu`, `memory`, `ephemeral-storage`."""

    limits: dict[str, str] = {}


class Container(Part, frozen=True, kw_only=True):
    """A container that is asked for."""

    name: str
    image: str = ""
    resources: Resources = Resources()


class PodSpec(Part, frozen=True, kw_only=True):
    """What is asked for, and the node that it was given."""

    node_name: str = ""
    active_deadline_seconds: int | None = None
    containers: list[Container] = []
    init_containers: list[Container] = []


class Pod(Part, frozen=True, kw_only=True):
    """A pod."""

    metadata: Metadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class ListMeta(Part, frozen=True, kw_only=True):
    """Of a list: its version, and where the next page begins."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class PodList(Part, frozen=True, kw_only=True):
    """One page of pods."""

    metadata: ListMeta
    items: list[Pod] = []


class Event(Part, frozen=True, kw_only=True):
    """One line of a watch; `object` is a pod, or an error, by `type`."""

    type: str
    object: msgspec.Raw


class Refusal(Part, frozen=True, kw_only=True):
    """The API server says no."""

    code: int = 0
    reason: str = ""
    message: str = ""


class Bookmark(Part, frozen=True, kw_only=True):
    """A version, without news."""

    metadata: Metadata
