"""What a run's settings do to agents in containers of a real engine: the clock that they see, the network that they have."""

from __future__ import annotations

import asyncio
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.events import Message, RolloutFailed, RolloutFinished, RolloutStart
from tests.contract.conftest import docker_engine
from tests.e2e.stacks import live_stack, write_config
from tests.e2e.test_stack_rollouts import watch, write_task
from tests.waiting import until

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.usefixtures("docker_engine")]

__all__ = ["docker_engine"]

SETTINGS = """
[orchestrator]
backend = "docker"
clock = "2024-02-29T12:00:00Z"
network = "task"
"""
LOOK = """
import socket, struct, threading, time
time.sleep(0.1)
threading.Event().wait(0.1)
print(time.strftime("%F"))
routes = [line.split() for line in open("/proc/net/route")][1:]
gates = [socket.inet_ntoa(struct.pack("<L", int(route[2], 16))) for route in routes if route[1] == "00000000"]
try:
    socket.create_connection((gates[0], PORT), 5)
    print("reached")
except (OSError, IndexError):
    print("nothing")
"""
"""Sleeps; the date, and whether a server of the machine is reached by way of the gateway of the sandbox's network."""


@pytest.fixture
def port() -> Iterator[int]:
    """Of a server of this machine."""
    with http.server.ThreadingHTTPServer(("0.0.0.0", 0), http.server.SimpleHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def looking(folder: Path, name: str, port: int, finds: str) -> Path:
    task = write_task(folder, name, "{ date -u +%F; python3 look.py; } > out.txt 2>&1", f"2024-02-29\n2024-02-29\n{finds}")
    (task / "environment" / "look.py").write_text(LOOK.replace("PORT", str(port)))
    return task


async def test_agents_see_the_clock_of_the_run_and_the_network_that_their_task_asks_for(tmp_path: Path, port: int) -> None:
    closed, public = looking(tmp_path, "closed", port, "nothing"), looking(tmp_path, "open", port, "reached")
    with (public / "task.toml").open("a") as file:
        file.write('[environment]\nnetwork_mode = "public"\n')
    seen: list[Message] = []
    async with live_stack(write_config(tmp_path, SETTINGS)) as stack:
        watching = asyncio.create_task(watch(stack, seen))
        run = stack.config.run.id
        for task in (closed, public):
            start = RolloutStart(
                run_id=run, rollout_id=f"{run}-{task.name}", group_id=f"{run}-{task.name}", group_size=1, harness="react",
                task_dir=str(task),
            )  # fmt: skip
            await stack.bus.publish(start)
        await until(lambda: len(outcomes(seen)) == 2, 500.0)
        watching.cancel()
    assert outcomes(seen) == {"test/closed": 1.0, "test/open": 1.0}


def outcomes(seen: list[Message]) -> dict[str, object]:
    """Rewards by task; what failed for good as it is."""
    ended = [m for m in seen if isinstance(m, RolloutFinished) or (isinstance(m, RolloutFailed) and m.final)]
    return {m.task: m.reward if isinstance(m, RolloutFinished) else m for m in ended}
