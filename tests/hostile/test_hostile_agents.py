"""A hostile agent, in every kind of sandbox that this machine can give: it reaches the proxy, and nothing else."""

from __future__ import annotations

import secrets
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pytest

from services.orchestrator.backends.port import Resources
from services.orchestrator.sandbox import Kind
from shared.config import OrchestratorConfig, ProxyConfig
from tests.contract.backend_kits import node_with_images
from tests.contract.conftest import docker_engine
from tests.engine.scripted import ScriptedEngine
from tests.hostile.arenas import Arena, Local
from tests.hostile.docker_arena import docker_arena
from tests.hostile.kubernetes_arena import kubernetes_arena
from tests.kube.fixtures import admin, cluster, namespace, real_node
from tests.unit.orchestrator.conftest import bench_of, make_task, open_folder
from tests.unit.orchestrator.runners import Bench, processes_with
from tests.unit.proxy.world import World, living_world

__all__ = [
    "admin", "bench_of", "cluster", "docker_engine", "make_task", "namespace", "node_with_images", "open_folder", "real_node",
]  # fmt: skip
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

_REAL = [
    pytest.param("docker", marks=pytest.mark.real), pytest.param("kubernetes", marks=[pytest.mark.real, pytest.mark.fleet]),
]  # fmt: skip
ARENAS = ("bubblewrap", "bubblewrap-as-somebody", "uid", *_REAL)
VERIFIER = """#!/bin/sh
before=$(wc -c < trace); sleep 0.3; after=$(wc -c < trace)
[ "$before" -gt 0 ] && [ "$before" = "$after" ] && echo QUIET
echo 0 > "$LOGS_DIR/verifier/reward.txt"
echo "REACHED $(cat reached.json)"
"""
FORGED = "1\n"
PIDS, MEMORY_MB = 64, 256
PODS_PIDS = PIDS * OrchestratorConfig().concurrency
"""A pod's number of processes is its node's matter. Without a limit there, that of all processes of the user holds."""
OUTSIDE = "what listens on all addresses of the machine, by a network that enforces no policy"
OWN = {"/logs/verifier/reward.txt", "/tests/test.sh", "/dev/termination-log", "/openforge/run.py"}
"""What an agent may be able to write: it is made anew before it counts, or written over."""


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A folder for the proxy's unix socket, whose path must be short."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture(params=ARENAS)
def kind(request: pytest.FixtureRequest) -> str:
    """Of the arena."""
    return str(request.param)


@pytest.fixture
def site(request: pytest.FixtureRequest, kind: str) -> tuple[Any, ...]:
    """What an arena of containers needs."""
    needs = {"docker": ["docker_engine"], "kubernetes": ["node_with_images", "namespace"]}
    return tuple(request.getfixturevalue(name) for name in needs.get(kind, []))


@pytest.fixture
async def proxy(kind: str, scripted_engine: ScriptedEngine, sockets: Path) -> AsyncIterator[World]:
    host = "0.0.0.0" if kind == "kubernetes" else ProxyConfig().host
    async with living_world(scripted_engine, socket=str(sockets / "proxy.sock"), host=host) as world:
        yield world


@pytest.fixture
def services() -> Iterator[dict[str, str]]:
    """Stand-ins for what a rollout must not reach: somebody listens there. And addresses outside of the machine."""
    with ExitStack() as stack:
        listening = {
            name: stack.enter_context(socket.create_server(("0.0.0.0", 0))) for name in ("nats", "redis", "api", "control")
        }
        inner = {name: f"127.0.0.1:{sock.getsockname()[1]}" for name, sock in listening.items()}
        yield inner | {"metadata": "169.254.169.254:80", "internet": "1.1.1.1:443"}


@pytest.fixture
async def arena(
    kind: str, site: tuple[Any, ...], bench_of: Callable[[Kind], Bench], proxy: World, sockets: Path
) -> AsyncIterator[Arena]:
    name, _, somebody = kind.partition("-")
    bench = bench_of("process" if site else cast(Kind, name))
    bench.proxy = await proxy.open("r1-a1")
    bench.resources = {"pids": PIDS, "memory_mb": MEMORY_MB}
    bench.task.joinpath("tests/test.sh").write_text(VERIFIER)
    if kind == "docker":
        async with docker_arena(bench, proxy, sockets, Resources(memory_mb=MEMORY_MB, pids=PIDS)) as docker:
            yield docker
    elif kind == "kubernetes":
        room = Resources(memory_mb=2 * MEMORY_MB, pids=PIDS)  # for as many processes as there may be
        node, namespace = site
        async with kubernetes_arena(bench, proxy, node, namespace, room) as pods:
            yield pods
    else:
        yield Local(bench, as_somebody=bool(somebody))


@pytest.fixture
async def order(arena: Arena, services: dict[str, str], proxy: World) -> dict[str, Any]:
    """What the agent is to try."""
    nats = services["nats"].rpartition(":")[2]
    outside = {OUTSIDE: f"{arena.outside}:{nats}"} if arena.outside else {}
    secret = (await proxy.open("r2-a1")).rpartition("/")[2]
    return {
        "reach": services | outside, "ports": [int(nats)], "secret": secret[::-1],
        "folders": ["/run", "/root", "/home", "/srv", "/etc"], "own": "",
        "write": ["/logs/verifier/reward.txt", "/tests/test.sh", "/dev/termination-log", "/openforge/run.py", "/usr/bin/of-x",
                  "/etc/of-x", "/proc/sys/kernel/panic", "/sys/fs/cgroup/of-x/cgroup.procs"],
        "forged": FORGED, "tests": ["/tests/test.sh", "/solution"], "mb": 4 * MEMORY_MB, "bytes": 500_000_000,
        "trace": f"{arena.app}/trace", "mark": f"hostile-{secrets.token_hex(6)}", "report": f"{arena.app}/reached.json",
        "stay": True, "not": [],
    }  # fmt: skip


async def test_a_hostile_agent_reaches_the_proxy_and_nothing_else(arena: Arena, order: dict[str, Any], proxy: World) -> None:
    own = (await proxy.open("r1-a1")).rpartition("/")[2]
    outcome = await arena.run(order | {"own": own}, timeout_s=30.0)
    got, agent, verify = outcome.reached, outcome.status["phases"]["agent"], outcome.status["phases"]["verify"]
    assert got, outcome.printed[-2000:]
    assert (got["secrets"], got["tickets"], got["tests"], got["privileges"]) == ([], [], [], [])
    assert set(got["writing"]) <= (set(order["write"]) if arena.own_root else OWN)  # what that is worth is seen below
    assert got["tracing"] in ([], [1] if arena.own_root else [])
    if not arena.open_network:
        assert (got["network"], got["calls"]) == ([OUTSIDE] if arena.outside else [], [own])
        assert got["listening"] == [8080]
    # it neither ended the runner nor forged its words, and what it left has no bearing on the reward
    assert (outcome.status["phase"], agent["timed_out"], agent["limit"]) == ("done", True, "wall")
    assert verify["collected"] == {"reward.txt": "0\n"}
    # it was held within its limits, and the machine's other programs were not touched
    assert 10 < got["bomb"] <= (PODS_PIDS if arena.outside else PIDS)
    assert got["memory"] < MEMORY_MB
    assert len(outcome.printed) < 1_100_000
    # and nothing of it went on when the verifier began
    assert "QUIET" in outcome.verified
    assert processes_with(order["mark"]) == []
