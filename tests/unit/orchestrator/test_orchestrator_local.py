"""Runners that outlive whoever started them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import uvloop

from shared.errors import SandboxError
from tests.unit.orchestrator.house import until
from tests.unit.orchestrator.runners import Bench

# Starts the runner of a spec, and is killed before the runner ends.
STARTER = """
import os, sys
from pathlib import Path
import msgspec
from services.orchestrator.backends.local import LocalBackend
LocalBackend(Path(sys.argv[1])).start("r1-a1", msgspec.json.decode(Path(sys.argv[2]).read_bytes()))
os.kill(os.getpid(), 9)
"""


async def start_and_die(bench: Bench, script: str) -> None:
    """Somebody starts a runner and dies."""
    spec = bench.records / "planned.json"
    spec.write_bytes(msgspec.json.encode(bench.spec(script)))
    starter = await asyncio.create_subprocess_exec(sys.executable, "-c", STARTER, str(bench.records), str(spec))
    assert await starter.wait() == -9


async def test_a_runner_is_adopted_by_a_successor(plain_bench: Bench) -> None:
    go = plain_bench.records.parent / "go"
    await start_and_die(plain_bench, f"while [ ! -e {go} ]; do sleep 0.05; done; echo hello > out.txt")
    waiting = asyncio.create_task(plain_bench.backend.wait("r1-a1"))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    go.touch()
    status = await waiting
    assert (status["phase"], status["phases"]["verify"]["collected"]) == ("done", {"reward.txt": "1\n"})


async def test_an_adopted_runner_can_be_cancelled(plain_bench: Bench) -> None:
    await start_and_die(plain_bench, "sleep 600")
    backend = plain_bench.backend
    waiting = asyncio.create_task(backend.wait("r1-a1"))
    await until(lambda: (status := plain_bench.status()) and status["phase"] == "agent", "the agent to run")
    backend.cancel("r1-a1")
    async with asyncio.timeout(2):
        assert (await waiting)["phase"] == "cancelled"


async def test_a_runner_that_ended_unseen_still_tells_its_end(plain_bench: Bench) -> None:
    await start_and_die(plain_bench, "echo hello > out.txt")
    await until(lambda: (status := plain_bench.status()) and status["phase"] == "done", "the runner to end")
    assert (await plain_bench.backend.wait("r1-a1"))["phases"]["agent"]["exit_code"] == 0


async def test_a_runner_that_was_killed_is_a_sandbox_error(plain_bench: Bench) -> None:
    backend = plain_bench.backend
    backend.start("r1-a1", plain_bench.spec("exec sleep 600"))
    await until(lambda: (status := plain_bench.status()) and status["phase"] == "agent", "the agent to run")
    status = plain_bench.status()
    assert status is not None
    os.kill(status["pid"], 9)
    with pytest.raises(SandboxError, match="died in phase 'agent'"):
        await backend.wait("r1-a1")


async def test_a_spec_whose_runner_never_lived_is_a_sandbox_error(plain_bench: Bench) -> None:
    plain_bench.spec("true")
    with pytest.raises(SandboxError, match="died in phase None"):
        await plain_bench.backend.wait("r1-a1")


async def test_what_a_runner_said_before_it_died_is_told(plain_bench: Bench) -> None:
    spec = plain_bench.spec("true")
    del spec["phases"]  # type: ignore[misc]
    backend = plain_bench.backend
    backend.start("r1-a1", spec)
    with pytest.raises(SandboxError, match="KeyError: 'phases'"):
        await backend.wait("r1-a1")


async def test_a_runner_is_started_once(plain_bench: Bench) -> None:
    backend = plain_bench.backend
    spec = plain_bench.spec("sleep 600")
    backend.start("r1-a1", spec)
    with pytest.raises(SandboxError, match="could not be started"):
        plain_bench.backend.start("r1-a1", spec)
    backend.cancel("r1-a1")
    assert (await backend.wait("r1-a1"))["phase"] == "cancelled"


async def test_no_zombie_is_left(plain_bench: Bench) -> None:
    await plain_bench.run("true")
    status = plain_bench.status()
    assert status is not None
    assert not Path(f"/proc/{status['pid']}").exists()


def test_it_works_under_uvloop(plain_bench: Bench) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(plain_bench.run("true"))["phase"] == "done"


def test_a_start_costs_little_more_than_python_itself() -> None:
    """Imports are what a start costs; these are all that the runner may have (json alone brings most of them)."""
    code = "import sys; before = set(sys.modules); import services.orchestrator.runner; print(*set(sys.modules) - before)"
    listed = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3]
    )
    heavy = {"typing", "contextlib", "subprocess", "socket", "threading", "shutil", "tempfile", "logging", "pathlib", "asyncio"}
    assert not heavy & set(listed.stdout.split())
