"""From what the API server tells of a pod to how its sandbox is. Pure."""

from __future__ import annotations

import datetime as dt
import re

import msgspec

from services.orchestrator.backends.kubernetes.podnames import SESSION
from services.orchestrator.backends.kubernetes.pods import Condition, ContainerStatus, Pod, Terminated
from services.orchestrator.backends.kubernetes.podspec import END_NOW_S, FOLDERS, MAIN, WORK
from services.orchestrator.backends.port import FORGOTTEN_S, Seen, Stage
from services.orchestrator.runner.report import STATUS_LINE
from services.orchestrator.spec import FINAL, Status
from shared.errors import (
    AgentMemory,
    AgentStorage,
    Evicted,
    ForgeError,
    ImageError,
    OutOfMemory,
    SandboxError,
    StageTimeout,
    Unschedulable,
)

LOST_S = 15.0
"""A pod that is still there so long after its last moment is on a node that does not answer."""
_DETAIL = 600
_IMAGE = frozenset({
    "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError", "RegistryUnavailable",
    "SignatureValidationFailed", "CreateContainerConfigError", "CreateContainerError", "RunContainerError", "StartError",
    "ContainerCannotRun",
})  # fmt: skip
"""Reasons of a container that waits, or ended, and will never run."""
_PUT_OUT = frozenset({"Evicted", "NodeLost", "Shutdown", "NodeShutdown", "Terminated", "Preempting", "NodeAffinity"})
_OWN_DISK = re.compile(
    f"Container {MAIN} exceeded its local ephemeral storage limit|Pod ephemeral local storage usage exceeds the total limit"
    f'|Usage of EmptyDir volume "({"|".join([*FOLDERS, WORK])})" exceeds the limit'
)
"""What kubelet says of a pod that it put out for the pod's own sake, whatever room its node had (v1.20 to v1.35 at least)."""
_NO_ROOM = ("OutOf", "UnexpectedAdmissionError", "NodePorts", "Unschedulable")


class AskedToEnd(SandboxError):
    """A pod was asked to end. Kubernetes before 1.22 says so before it did, and forgets how its containers ended."""


def session_of(pod: Pod) -> str:
    """The session that a pod is of; empty for a pod of somebody else's."""
    return pod.metadata.annotations.get(SESSION, "")


def seen(pod: Pod, now: dt.datetime, patience_s: float) -> Seen:
    """How a sandbox is.

    Args:
        pod: the news of it.
        now: with a time zone.
        patience_s: how long the scheduler may find no node for it.
    """
    status, error = _end(pod, now, patience_s)
    stage: Stage = "ended" if status or error else _stage(pod)
    return _seen(pod, stage, status, error)


def vanished(pod: Pod) -> Seen:
    """How a sandbox ended whose pod is no more, by the last that was seen of it."""
    status, error = _end(pod, dt.datetime.min.replace(tzinfo=dt.UTC), 0.0)  # nothing was ever late
    if status is None and error is None:
        error = Evicted("its pod was deleted by somebody else, or with its node, before it ended")
    return _seen(pod, "ended", status, error)


def _seen(pod: Pod, stage: Stage, status: Status | None, error: ForgeError | None) -> Seen:
    main = _main(pod)
    image = main.image_id if main and stage == "ended" else ""
    return Seen(session_of(pod), stage, status=status, error=error, where=pod.spec.node_name, image=image)


def forgotten(pod: Pod, now: dt.datetime) -> bool:
    """Whether a pod is nobody's any more (see `FORGOTTEN_S`)."""
    made, deadline = pod.metadata.creation_timestamp, pod.spec.active_deadline_seconds
    if made is None or deadline is None or not session_of(pod):
        return False
    return (now - made).total_seconds() > deadline + FORGOTTEN_S


def _stage(pod: Pod) -> Stage:
    if not pod.spec.node_name:
        return "schedule"
    main, every = _main(pod), [*pod.status.init_container_statuses, *pod.status.container_statuses]
    if main and (main.state.running or main.state.terminated):
        return "run"
    there = {c.name for c in every if c.state.running or c.state.terminated}
    wanted = [*pod.spec.init_containers, *pod.spec.containers]
    images = {c.image for c in wanted if c.name in there}
    return "boot" if all(c.image in images for c in wanted) else "pull"


def _end(pod: Pod, now: dt.datetime, patience_s: float) -> tuple[Status | None, ForgeError | None]:
    """The status that its runner left, or why there is none; neither for a pod that goes on."""
    main = _main(pod)
    ended = main.state.terminated if main else None
    if ended and ended.exit_code == 0:
        return _last_words(ended)
    error = (
        _put_out(pod, main)
        or _never_ran(pod)
        or (_killed(pod, ended) if ended else None)
        or _unschedulable(pod, now, patience_s)
    )
    if error is None and pod.status.phase in ("Failed", "Succeeded"):
        error = SandboxError(_said(f"pod ended ({pod.status.phase})", pod.status.reason, pod.status.message))
    return None, error or _lost(pod, now)


def _last_words(ended: Terminated) -> tuple[Status | None, ForgeError | None]:
    try:
        status = msgspec.json.decode(ended.message, type=Status)
    except msgspec.DecodeError as e:
        return None, SandboxError(f"its runner left no status that can be read ({e}): {ended.message[:_DETAIL]!r}")
    if status["phase"] not in FINAL:
        return None, SandboxError(f"its runner ended in the phase {status['phase']!r}")
    return status, None


def cancelled(line: bytes) -> Status | None:
    """The status of a pod that was asked to end, by the last line that it printed. It counts for nothing but that it ended:
    an agent can print the same."""
    try:
        status = msgspec.json.decode(line.removeprefix(STATUS_LINE.encode()), type=Status)
    except msgspec.DecodeError:
        return None
    return status if status["phase"] == "cancelled" else None


def _put_out(pod: Pod, main: ContainerStatus | None) -> ForgeError | None:
    reason, message = pod.status.reason, pod.status.message
    if reason == "DeadlineExceeded" and pod.spec.active_deadline_seconds == END_NOW_S:
        return AskedToEnd("it was asked to end, and killed since its runner did not")
    if reason == "DeadlineExceeded":
        limit = f"its pod was ended {pod.spec.active_deadline_seconds} s after it began, which is above all that may run in it"
        return StageTimeout(f"{limit}; its runner never ran") if main and main.state.waiting else SandboxError(limit)
    if reason == "Evicted" and _OWN_DISK.match(message) and not (main and main.state.waiting):
        return AgentStorage(_said("its pod was put out of its node for what it wrote", "", message))
    if reason in _PUT_OUT:
        return Evicted(_said("its pod was put out of its node", reason, message))
    if reason.startswith(_NO_ROOM):
        return Unschedulable(_said("its node refused the pod", reason, message))
    why = _condition(pod, "DisruptionTarget")
    if why and why.status == "True" and pod.status.phase == "Failed":
        return Evicted(_said("its pod was put out of its node", why.reason, why.message))
    return None


def _never_ran(pod: Pod) -> ForgeError | None:
    for container in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        state = container.state
        if state.waiting and state.waiting.reason in _IMAGE:
            return _image_error(container, state.waiting.reason, state.waiting.message)
        if state.terminated and state.terminated.reason in _IMAGE:
            return _image_error(container, state.terminated.reason, state.terminated.message)
        if state.terminated and state.terminated.exit_code and container.name != MAIN:
            what = f"its container {container.name!r} ended with exit code {state.terminated.exit_code}"
            oom = state.terminated.reason == "OOMKilled"
            return (OutOfMemory if oom else SandboxError)(_said(what, state.terminated.reason, state.terminated.message))
    return None


def _image_error(container: ContainerStatus, reason: str, message: str) -> ImageError:
    return ImageError(_said(f"image {container.image} of the container {container.name!r}", reason, message))


def _killed(pod: Pod, ended: Terminated) -> ForgeError:
    if ended.reason == "OOMKilled":
        limited = any("memory" in c.resources.limits for c in pod.spec.containers if c.name == MAIN)
        if limited:
            return AgentMemory("its runner was killed because the sandbox used more memory than it was given")
        return OutOfMemory("its runner was killed because its node, which gave the pod no limit, ran out of memory")
    return SandboxError(_said(f"its runner was ended with exit code {ended.exit_code}", ended.reason, ""))


def _unschedulable(pod: Pod, now: dt.datetime, patience_s: float) -> ForgeError | None:
    placed = _condition(pod, "PodScheduled")
    if not placed or placed.status != "False" or placed.reason != "Unschedulable" or not placed.last_transition_time:
        return None
    if (now - placed.last_transition_time).total_seconds() < patience_s:
        return None
    return Unschedulable(_said(f"no node was found within {patience_s:g} s", "", placed.message))


def _lost(pod: Pod, now: dt.datetime) -> ForgeError | None:
    until = pod.metadata.deletion_timestamp
    if until is None or (now - until).total_seconds() < LOST_S:
        return None
    return Evicted(f"its node {pod.spec.node_name or '(none)'} does not answer")


def _main(pod: Pod) -> ContainerStatus | None:
    return next((c for c in pod.status.container_statuses if c.name == MAIN), None)


def _condition(pod: Pod, kind: str) -> Condition | None:
    return next((c for c in pod.status.conditions if c.type == kind), None)


def _said(what: str, reason: str, message: str) -> str:
    return ": ".join(part for part in (what, reason, message[:_DETAIL].strip()) if part)
