"""How a sandbox is, by what the API server tells of its pod."""

from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.orchestrator.backends.kubernetes.pods import Pod
from services.orchestrator.backends.kubernetes.podstate import cancelled, forgotten, seen, vanished
from services.orchestrator.backends.port import FORGOTTEN_S, Seen
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
from tests.kube.boxes import DONE, NOW, container, ended, told

WAIT = {"reason": "ContainerCreating"}
REASONS = [
    "",
    "Completed",
    "Error",
    "OOMKilled",
    "StartError",
    "ErrImagePull",
    "Evicted",
    "DeadlineExceeded",
    "OutOfcpu",
    "NodeLost",
]


@pytest.mark.parametrize(("late_s", "gone"), [(-10, False), (10, True)])
def test_a_pod_is_nobodys_a_day_after_its_deadline(late_s: float, gone: bool) -> None:
    pod = told("Succeeded", made=NOW)
    assert pod.spec.active_deadline_seconds == 60
    assert forgotten(pod, NOW + dt.timedelta(seconds=60 + FORGOTTEN_S + late_s)) is gone


@pytest.mark.parametrize("pod", [told("Succeeded"), told("Succeeded", made=NOW, session="")])
def test_a_pod_of_unknown_age_or_of_somebody_else_is_left_alone(pod: Pod) -> None:
    assert not forgotten(pod, NOW + dt.timedelta(days=999))


def at(pod: Pod, patience_s: float = 100.0) -> Seen:
    return seen(pod, NOW, patience_s)


def unschedulable(seconds_ago: float) -> dict[str, Any]:
    since = NOW - dt.timedelta(seconds=seconds_ago)
    return {
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/3 nodes are available", "lastTransitionTime": since.isoformat(),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("pod", "stage"),
    [
        (told(node=""), "schedule"),
        (told(node="", conditions=(unschedulable(99),)), "schedule"),
        (told(), "pull"),
        (told(main=container(waiting=WAIT)), "pull"),
        (told(inits=(container("harness", "h", running={}),)), "pull"),
        (told(inits=(container("harness", "h", terminated=ended(0)), container("workdir", "img", waiting=WAIT))), "pull"),
        (told(inits=(container("harness", "h", terminated=ended(0)), container("workdir", "img", running={}))), "boot"),
        (told("Running", main=container(running={})), "run"),
    ],
)
def test_a_sandbox_goes_through_its_stages(pod: Pod, stage: str) -> None:
    assert (at(pod).stage, at(pod).error, at(pod).status) == (stage, None, None)


def test_a_runner_that_ended_by_its_own_will_left_its_status() -> None:
    found = at(told("Succeeded", main=container(terminated=ended(0, message=DONE))))
    assert found.stage == "ended"
    assert found.status is not None
    assert found.status["phase"] == "done"
    assert found.where == "node1"


@pytest.mark.parametrize("code", [0, 1])
def test_the_image_that_ran_is_told_at_the_end(code: int) -> None:
    main = container(terminated=ended(code, message=DONE)) | {"imageID": "docker-pullable://img@sha256:1"}
    assert at(told("Succeeded", main=main)).image == "docker-pullable://img@sha256:1"
    assert at(told("Running", main=container(running={}) | {"imageID": "sha256:1"})).image == ""


def test_last_words_count_even_if_something_else_ran_out_of_memory() -> None:
    assert at(told("Succeeded", main=container(terminated=ended(0, "OOMKilled", DONE)))).status


@pytest.mark.parametrize("words", ["", "nonsense", "{}", DONE.replace("done", "agent"), DONE[:20]])
def test_last_words_that_say_nothing_are_an_error(words: str) -> None:
    found = at(told("Succeeded", main=container(terminated=ended(0, message=words))))
    assert (found.stage, found.status, type(found.error)) == ("ended", None, SandboxError)


def test_the_status_of_a_runner_that_was_killed_is_not_believed() -> None:
    found = at(told("Failed", main=container(terminated=ended(137, "Error", DONE))))
    assert (found.status, type(found.error)) == (None, SandboxError)
    assert "137" in str(found.error)


CASES: list[tuple[Pod, type[ForgeError], str]] = [
    *((told(main=container(waiting={"reason": r, "message": "no such tag"})), ImageError, r) for r in (
        "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError",
        "CreateContainerError", "RunContainerError",
    )),
    (told(inits=(container("harness", "h", waiting={"reason": "ImagePullBackOff"}),)), ImageError, "image h"),
    (told("Failed", main=container(terminated=ended(128, "StartError", "no such file"))), ImageError, "no such file"),
    (told("Failed", main=container(terminated=ended(137, "OOMKilled"))), AgentMemory, "memory"),
    (told("Failed", main=container(terminated=ended(137, "OOMKilled")), memory=""), OutOfMemory, "its node"),
    (told("Failed", inits=(container("workdir", terminated=ended(1, "Error", "cp: denied")),)), SandboxError, "cp: denied"),
    (told("Failed", inits=(container("workdir", terminated=ended(137, "OOMKilled")),)), OutOfMemory, "workdir"),
    (told("Failed", reason="Evicted", message="disk"), Evicted, "disk"),
    (told("Failed", reason="NodeLost"), Evicted, "NodeLost"),
    (told("Failed", reason="Shutdown"), Evicted, "Shutdown"),
    (told("Failed", reason="OutOfmemory"), Unschedulable, "OutOfmemory"),
    (told("Failed", reason="UnexpectedAdmissionError"), Unschedulable, "refused"),
    (told("Failed", reason="DeadlineExceeded", main=container(terminated=ended(137))), SandboxError, "60 s"),
    (told("Failed", reason="DeadlineExceeded"), SandboxError, "60 s"),
    (told("Failed", reason="DeadlineExceeded", main=container(waiting=WAIT)), StageTimeout, "never ran"),
    (told("Failed", conditions=({"type": "DisruptionTarget", "status": "True", "reason": "Preempted"},)), Evicted, "Preempt"),
    (told(node="", conditions=(unschedulable(101),)), Unschedulable, "0/3 nodes"),
    (told("Running", main=container(running={}), deleted=NOW - dt.timedelta(seconds=20)), Evicted, "does not answer"),
    (told("Failed"), SandboxError, "Failed"),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "kind", "word"), CASES, ids=lambda v: getattr(v, "__name__", v if isinstance(v, str) else ""))
def test_every_failure_has_its_type_and_says_why(pod: Pod, kind: type[ForgeError], word: str) -> None:
    found = at(pod)
    assert (found.stage, type(found.error)) == ("ended", kind)
    assert word in str(found.error)


OWN = [
    'Container agent exceeded its local ephemeral storage limit "1Gi". ',
    "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ",
    'Usage of EmptyDir volume "tmp" exceeds the limit "8Gi". ',
    'Usage of EmptyDir volume "work" exceeds the limit "16Gi". ',
]
OTHERS = [
    'Usage of EmptyDir volume "openforge" exceeds the limit "8Gi". ',
    "The node was low on resource: ephemeral-storage. Container agent was using 3Gi, which exceeds its request of 1Gi. ",
    "The node was low on resource: memory. Container agent was using 2Gi, which exceeds its request of 1Gi. ",
    "The node had condition: [DiskPressure]. ",
    "",
]


@pytest.mark.parametrize("words", OWN)
def test_a_pod_that_was_put_out_for_what_it_wrote_is_its_agents_doing(words: str) -> None:
    for main in (None, container(running={}), container(terminated=ended(137))):
        assert type(at(told("Failed", reason="Evicted", message=words, main=main)).error) is AgentStorage


@pytest.mark.parametrize("words", OTHERS)
def test_a_pod_that_was_put_out_for_its_nodes_sake_is_nobodys_doing(words: str) -> None:
    assert type(at(told("Failed", reason="Evicted", message=words, main=container(running={}))).error) is Evicted


@pytest.mark.parametrize("words", OWN)
def test_a_pod_that_was_put_out_before_its_agent_ran_is_not_the_agents_doing(words: str) -> None:
    assert type(at(told("Failed", reason="Evicted", message=words, main=container(waiting=WAIT))).error) is Evicted


def test_what_a_cancelled_runner_printed_last_counts_as_its_status_and_nothing_else_does() -> None:
    line = f"OPENFORGE-STATUS {DONE}".encode()
    assert cancelled(line.replace(b"done", b"cancelled"))
    for other in (line, b"", b"\xff", b"OPENFORGE-STATUS {", b"some words"):
        assert cancelled(other) is None


def test_a_pod_that_is_being_deleted_runs_until_its_time_is_over() -> None:
    assert at(told("Running", main=container(running={}), deleted=NOW + dt.timedelta(seconds=5))).stage == "run"


def test_a_vanished_pod_ended_as_it_was_last_seen() -> None:
    assert vanished(told("Succeeded", main=container(terminated=ended(0, message=DONE)))).status
    assert isinstance(vanished(told("Failed", main=container(terminated=ended(137, "OOMKilled")))).error, AgentMemory)
    for pod in (
        told(),
        told(node="", conditions=(unschedulable(1),)),
        told("Running", main=container(running={}), deleted=NOW),
    ):
        assert isinstance(vanished(pod).error, Evicted)
        assert vanished(pod).stage == "ended"


STATES = st.one_of(
    st.none(),
    st.builds(lambda r: container(waiting={"reason": r}), st.sampled_from(REASONS)),
    st.just(container(running={})),
    st.builds(
        lambda code, r, m: container(terminated=ended(code, r, m)),
        st.sampled_from([0, 1, 137]), st.sampled_from(REASONS), st.sampled_from(["", DONE, "{"]),
    ),
)  # fmt: skip
PODS = st.builds(
    lambda phase, main, reason, node, deleted: told(phase, main=main, reason=reason, node=node, deleted=deleted),
    st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"]), STATES, st.sampled_from(REASONS),
    st.sampled_from(["", "n"]), st.sampled_from([None, NOW, NOW - dt.timedelta(hours=1)]),
)  # fmt: skip


@given(PODS)
def test_a_sandbox_has_either_ended_for_one_reason_or_goes_on(pod: Pod) -> None:
    for found in (at(pod), vanished(pod)):
        assert (found.stage == "ended") == ((found.status is None) != (found.error is None))
    assert vanished(pod).stage == "ended"
    if pod.status.phase in ("Succeeded", "Failed"):
        assert at(pod).stage == "ended"


def test_fields_that_nobody_here_knows_are_skipped_and_wrong_ones_refused() -> None:
    assert msgspec.json.decode(b'{"metadata": {"new": 1}, "status": {"phase": "Running", "other": []}}', type=Pod)
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"metadata": {}, "status": {"phase": 7}}', type=Pod)
