"""What a container is asked to be, and how one that ended is seen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.orchestrator.backends.docker.backend import docker_backend
from services.orchestrator.backends.docker.container import (
    HOSTNAME,
    STATUS_FILE,
    USER,
    Place,
    container_config,
    container_name,
    ended,
    forgotten,
    in_stage,
)  # fmt: skip
from services.orchestrator.backends.port import FORGOTTEN_S, Box, Resources, Seen
from services.orchestrator.spec import Spec
from shared.config import Config, ProxyConfig
from shared.config.sandboxes import ResourcesConfig
from shared.errors import AgentMemory, ConfigError, ImageError, OutOfMemory, SandboxError

STATUS = {"pid": 1, "phase": "done", "error": None, "phases": {}}
LEFT = json.dumps(STATUS).encode()


def box(**fields: Any) -> Box:
    spec = cast(Spec, {"phases": [{"cwd": "/app"}, {"cwd": "/elsewhere"}], "lease_s": 600.0})
    return Box(name="r1-a1", labels={"rollout": "r1", "task": "fix"}, spec=spec, folder=Path("/runs/x"), **fields)


def config(asked: Box, disk: bool = True, sockets: str = "/runs/x/proxy") -> dict[str, Any]:
    place = Place("run1", sockets, "public-net", ResourcesConfig(cpus=1.5, memory_mb=512, storage_mb=100, pids=64))
    return container_config(asked, place, "image:1", "tools", "the-ticket", disk)


def host(asked: Box, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = config(asked, **more)["HostConfig"]
    return found


def outcome(exit_code: int, left: bytes = b"", printed: str = "", *, memory: int = 1 << 30, **more: Any) -> Seen:
    state = {"Status": "exited", "ExitCode": exit_code, "OOMKilled": False, "Error": "", **more}
    return ended("r1-a1", {"State": state, "HostConfig": {"Memory": memory}, "Image": "sha256:1"}, left, printed, "vm")


def test_sessions_of_two_runs_have_two_containers() -> None:
    assert container_name("run1", "r1-a1") != container_name("run2", "r1-a1")


def test_a_container_is_found_again_by_its_run_and_session() -> None:
    labels = config(box())["Labels"]
    assert labels["openforge.run"] == "run1"
    assert labels["openforge.session"] == "r1-a1"
    assert (labels["openforge.rollout"], labels["openforge.task"]) == ("r1", "fix")


def test_labels_of_the_box_cannot_name_another_run() -> None:
    asked = Box("r1-a1", {"run": "other", "session": "other"}, box().spec, Path("/x"))
    assert (config(asked)["Labels"]["openforge.run"], config(asked)["Labels"]["openforge.session"]) == ("run1", "r1-a1")


def test_a_container_knows_its_ticket_and_where_the_proxy_is_and_its_status_belongs() -> None:
    wanted = [
        "OPENFORGE_PROXY=unix:/openforge-proxy",
        "OPENFORGE_TICKET=the-ticket",
        "OPENFORGE_LEASE=600",
    ]
    assert config(box())["Env"] == [*wanted, f"OPENFORGE_STATUS={STATUS_FILE}"]


def test_containers_of_a_group_look_alike_from_inside() -> None:
    assert config(box())["Hostname"] == HOSTNAME


def test_without_a_say_it_has_no_network() -> None:
    assert host(box())["NetworkMode"] == "none"
    assert host(box(network="public"))["NetworkMode"] == "public-net"


def test_everything_that_is_brought_along_is_read_only() -> None:
    mounts = host(box())["Mounts"]
    assert all(mount["ReadOnly"] for mount in mounts)
    assert [(m["Type"], m["Source"], m["Target"]) for m in mounts] == [
        ("volume", "tools", "/openforge"), ("bind", "/runs/x/proxy", "/openforge-proxy"),
    ]  # fmt: skip
    assert host(box(), sockets="shared")["Mounts"][1]["Type"] == "volume"


def test_rights_are_few_and_nothing_is_removed_by_itself() -> None:
    asked = host(box())
    assert asked["CapDrop"] == ["ALL"]
    assert not {"SYS_ADMIN", "SYS_PTRACE", "NET_ADMIN", "NET_RAW", "MKNOD"} & set(asked["CapAdd"])
    assert asked["SecurityOpt"] == ["no-new-privileges"]
    assert (asked["AutoRemove"], asked["RestartPolicy"]) == (False, {"Name": "no"})


def test_limits_are_the_tasks_else_the_configured_ones() -> None:
    asked = host(box())
    assert (asked["NanoCpus"], asked["Memory"], asked["PidsLimit"]) == (1_500_000_000, 512 << 20, 64)
    assert asked["MemorySwap"] == asked["Memory"]
    own = host(box(resources=Resources(cpus=2, memory_mb=64, storage_mb=7, pids=9)))
    assert (own["NanoCpus"], own["Memory"], own["PidsLimit"]) == (2_000_000_000, 64 << 20, 9)
    assert own["StorageOpt"] == {"size": "7M"}


def test_a_disk_that_cannot_be_limited_is_not_asked_to_be() -> None:
    assert "StorageOpt" not in host(box(), disk=False)


@pytest.mark.parametrize(("late_s", "gone"), [(-10, False), (10, True)])
def test_a_container_is_nobodys_a_day_after_all_in_it_must_have_ended(late_s: float, gone: bool) -> None:
    labels = config(box(deadline_s=500.0))["Labels"]
    assert forgotten(labels, 1000.0, 1000.0 + 500.0 + FORGOTTEN_S + late_s) is gone


@pytest.mark.parametrize("labels", [{}, {"openforge.deadline": "soon"}])
def test_a_container_without_a_deadline_is_left_alone(labels: dict[str, str]) -> None:
    assert not forgotten(labels, 0.0, 1e12)


def test_user_and_working_folder_of_the_agent_are_known_to_whoever_comes_later() -> None:
    labels = config(box())["Labels"]
    assert (labels["openforge.user"], labels["openforge.workdir"]) == (USER, "/app")
    assert config(box(user="root"))["Labels"]["openforge.user"] == "root"


@pytest.mark.parametrize(("state", "stage"), [("created", "boot"), ("running", "run"), ("paused", "run")])
def test_stages_of_what_has_not_ended(state: str, stage: str) -> None:
    seen = in_stage("r1-a1", state, "vm")
    assert seen is not None
    assert (seen.stage, seen.where) == (stage, "vm")


@pytest.mark.parametrize("state", ["exited", "dead", "removing"])
def test_what_ended_is_in_no_stage_before(state: str) -> None:
    assert in_stage("r1-a1", state, "vm") is None


def test_a_runner_that_ended_by_its_own_will_left_its_status() -> None:
    assert outcome(0, LEFT).status == STATUS


def test_a_runner_that_left_nothing_is_an_error() -> None:
    assert "left no status" in str(outcome(0).error)


@given(st.integers(1, 255), st.text())
def test_whoever_was_killed_or_failed_has_no_status_whatever_it_left(code: int, printed: str) -> None:
    seen = outcome(code, LEFT, printed)
    assert seen.status is None
    assert isinstance(seen.error, SandboxError)


@given(st.binary())
def test_whatever_was_left_is_a_status_or_an_error(left: bytes) -> None:
    seen = outcome(0, left)
    assert (seen.status is None) != (seen.error is None)


@pytest.mark.parametrize("left", ["{", "[]", '{"pid": 1}', json.dumps(STATUS | {"phase": "agent"})])
def test_a_status_that_is_none_is_an_error(left: str) -> None:
    assert isinstance(outcome(0, left.encode()).error, SandboxError)


def test_ends_by_other_hands_are_told_apart() -> None:
    assert isinstance(outcome(137, OOMKilled=True).error, AgentMemory)
    assert isinstance(outcome(137, OOMKilled=True, memory=0).error, OutOfMemory)
    assert "killed from outside" in str(outcome(137).error)
    assert isinstance(outcome(127, Error='exec: "/x": no such file').error, ImageError)
    assert not isinstance(outcome(128, Error="cannot mount").error, ImageError)
    assert "boom" in str(outcome(1, printed="Traceback\nboom").error)


def test_an_agent_that_ran_out_of_memory_is_the_runners_to_tell() -> None:
    assert outcome(0, LEFT, OOMKilled=True).status == STATUS


@pytest.mark.parametrize("code", [0, 1])
def test_the_image_is_told_however_a_container_ended(code: int) -> None:
    assert outcome(code, LEFT).image == "sha256:1"


@pytest.mark.parametrize(("socket", "advice"), [("", "set proxy.socket to a path"), ("/run/x/models", "/run/x/proxy.sock")])
def test_a_proxy_that_no_container_would_find_is_refused(socket: str, advice: str) -> None:
    with pytest.raises(ConfigError, match=advice):
        docker_backend(Config(proxy=ProxyConfig(socket=socket)), NoDepot())


class NoDepot:
    async def put(self, box: Box) -> str:
        raise AssertionError("nothing is asked for")
