"""What a stack is given that its configuration leaves open."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.dev.plan import make_plan
from shared.config import Config, OrchestratorConfig, ProxyConfig, RunConfig


def plan_socket(root: Path, backend: str, socket: str = "") -> str:
    config = Config(
        run=RunConfig(id="r1", root=str(root)),
        proxy=ProxyConfig(socket=socket),
        orchestrator=OrchestratorConfig(backend=backend),  # type: ignore[arg-type]
    )
    return make_plan(config, ("proxy",)).config.proxy.socket


def test_containers_get_the_proxys_socket_in_a_folder_of_its_own_in_the_run_folder(tmp_path: Path) -> None:
    assert plan_socket(tmp_path, "docker") == str(tmp_path / "r1" / "proxy" / "proxy.sock")


def test_where_that_path_is_too_long_the_socket_lies_in_the_temporary_folder(tmp_path: Path) -> None:
    found = plan_socket(tmp_path / ("x" * 100), "docker")
    assert found.endswith("/openforge-r1-proxy/proxy.sock")
    assert len(found) < 108


@pytest.mark.parametrize(("backend", "socket"), [("local", ""), ("docker", "/run/mine.sock"), ("local", "/run/mine.sock")])
def test_a_socket_that_is_named_or_not_needed_stays_as_it_is(tmp_path: Path, backend: str, socket: str) -> None:
    assert plan_socket(tmp_path, backend, socket) == socket
