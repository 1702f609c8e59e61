"""What the runner of a container fetches, and when."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.orchestrator.plan import SPARE_S, packages_of
from services.orchestrator.runner.inside import PROXY_VAR, prepared
from services.orchestrator.sandbox import Isolation
from services.orchestrator.spec import Phase, Spec, longest
from shared.task import load_task
from tests.unit.dev import sets
from tests.unit.orchestrator.runners import Bench

STEPS = """
[agent]
user = "worker"
[[steps]]
name = "first"
[[steps]]
name = "second"
[steps.agent]
user = 1000
[steps.verifier]
user = "judge"
"""


@pytest.fixture
def contained(tmp_path: Path) -> Bench:
    parts = {
        "task.toml": STEPS, "tests/test.sh": "echo\n",
        "steps/first/instruction.md": "one\n", "steps/second/instruction.md": "two\n",
        "steps/second/tests/wanted": "two\n", "steps/second/solution/solve.sh": "echo\n",
    }  # fmt: skip
    sets.put(tmp_path / "task", parts)
    return Bench(Isolation("container", True, 65534), tmp_path / "task", tmp_path / "runs", tmp_path / "sandboxes")


def fetched(phase: Phase) -> list[tuple[str, str]]:
    return [(package["package"], package["target"]) for package in phase["packages"]]


def phases(spec: Spec) -> dict[str, Phase]:
    return {phase["name"]: phase for phase in spec["phases"]}


def test_the_tests_of_a_step_are_fetched_by_its_verifier_and_by_nobody_before(contained: Bench) -> None:
    found = {name: fetched(phase) for name, phase in phases(contained.spec("true")).items()}
    assert found == {
        "agent": [("environment", "/app")], "verify": [("tests", "/tests")],
        "agent-2": [], "verify-2": [("tests", "/tests"), ("tests-2", "/tests")],
    }  # fmt: skip


def test_nothing_is_left_for_a_container_that_its_runner_does_not_fetch(contained: Bench) -> None:
    task = load_task(contained.task)
    assert packages_of(task, contained.spec("true")) == {
        "environment": task.folder / "environment", "tests": task.folder / "tests",
        "tests-2": task.folder / "steps" / "second" / "tests",
    }  # fmt: skip


def test_a_step_begins_with_an_empty_temporary_folder_and_without_the_verifiers(contained: Bench) -> None:
    found = phases(contained.spec("true"))
    assert {"/tmp", "/tests", "/logs/verifier", "/home/agent"} <= set(found["agent-2"]["fresh"])
    assert "/app" not in found["agent-2"]["fresh"]
    assert "/tmp" not in found["agent"]["fresh"]


def test_every_step_has_the_users_that_it_names(contained: Bench) -> None:
    found = {name: phase["user"] for name, phase in phases(contained.spec("true")).items()}
    assert found == {"agent": "worker", "verify": "worker", "agent-2": "1000", "verify-2": "judge"}


def test_a_runner_gives_itself_up_long_after_all_its_limits(contained: Bench) -> None:
    spec = contained.spec("true", timeout_s=10, verifier_timeout_s=5)
    assert longest(spec) == 30
    assert spec["deadline_s"] == 30 + SPARE_S


def test_a_service_is_started_for_every_step_with_what_the_image_sets(contained: Bench) -> None:
    file = contained.task / "task.toml"
    file.write_text(f'{file.read_text()}[metadata]\nserve = "exec server"\n[environment]\nenv = {{ OF_TASK = "yes" }}\n')
    spec = prepared(contained.spec("true"), {PROXY_VAR: "unix:/p", "OF_IMAGE": "yes", "PATH": "/opt/own:/usr/bin"})
    for name in ("agent", "agent-2"):
        service = phases(spec)[name]["service"]
        assert (service["argv"], service["port"]) == (["/bin/sh", "-c", "exec server"], 8000)
        assert (service["env"]["OF_TASK"], service["env"]["OF_IMAGE"]) == ("yes", "yes")
        assert service["env"]["PATH"].startswith("/opt/own:")
        assert "BASE" not in service["env"]
    assert "service" not in phases(spec)["verify"]
