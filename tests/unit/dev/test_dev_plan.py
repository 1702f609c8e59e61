"""What a stack is given that its configuration leaves open."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest

from services.dev.plan import make_plan
from shared.config import Config, OrchestratorConfig, ProxyConfig, RunConfig, SynthConfig


def plan_socket(root: Path, backend: str, socket: str = "") -> str:
    config = Config(
        run=RunConfig(id="r1", root=str(root)),
        proxy=ProxyConfig(socket=socket),
        orchestrator=OrchestratorConfig(backend=backend),  # type: ignore[arg-type]
    )
    return make_plan(config, ("proxy",)).config.proxy.socket


def test_all_that_runs_has_its_temporary_files_in_one_folder_which_is_not_that_of_the_sandboxes(tmp_path: Path) -> None:
    plan = make_plan(Config(run=RunConfig(id="r1", root=str(tmp_path))))
    assert plan.serving_copy is not None
    specs = [plan.serving_copy, *plan.engines, *plan.services]
    assert {spec.env["TMPDIR"] for spec in specs} == {str(plan.scratch)}
    assert not plan.scratch.exists()
    assert plan.config.orchestrator.work_root == tempfile.gettempdir()


@pytest.mark.parametrize("enabled", [False, True])
def test_a_run_has_a_service_that_makes_tasks_only_where_that_is_asked_for(tmp_path: Path, enabled: bool) -> None:
    config = Config(run=RunConfig(id="r1", root=str(tmp_path)), synth=SynthConfig(enabled=enabled))
    wanted = ["collector", "proxy", "orchestrator", "trainer", *["synth"] * enabled]
    assert [spec.name for spec in make_plan(config).services] == wanted
    making = make_plan(config, ("orchestrator", "synth"))
    assert [spec.name for spec in making.services] == ["orchestrator", "synth"]
    assert make_plan(config, ()).services == []


def test_containers_get_the_proxys_socket_in_a_folder_of_its_own_in_the_run_folder(tmp_path: Path) -> None:
    assert plan_socket(tmp_path, "docker") == str(tmp_path / "r1" / "proxy" / "proxy.sock")


def test_where_that_path_is_too_long_the_socket_lies_in_the_temporary_folder(tmp_path: Path) -> None:
    found = plan_socket(tmp_path / ("x" * 100), "docker")
    assert re.search(r"/openforge\.[0-9a-f]{6}/proxy/proxy\.sock$", found)
    assert len(found) < 108


@pytest.mark.parametrize(("backend", "socket"), [("local", ""), ("docker", "/run/mine.sock"), ("local", "/run/mine.sock")])
def test_a_socket_that_is_named_or_not_needed_stays_as_it_is(tmp_path: Path, backend: str, socket: str) -> None:
    assert plan_socket(tmp_path, backend, socket) == socket
