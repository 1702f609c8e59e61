"""Runners of this machine. What every backend promises is tested in tests/contract/test_backend_contract.py."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import uvloop

from services.orchestrator.backends import local
from services.orchestrator.backends.processes import Process, held, kill_tree
from services.orchestrator.backends.spawner import Spawner
from services.orchestrator.sandbox import PATH
from shared.errors import SandboxError
from tests.unit.orchestrator.house import until
from tests.unit.orchestrator.runners import OTHER_UID, Bench, ended, processes_with, showing

WHO = "id -u; grep CapPrm /proc/self/status; for n in user mnt net pid uts ipc; do readlink /proc/self/ns/$n; done"


async def running(bench: Bench) -> int:
    """Pid of the runner, once its agent runs."""
    await until(lambda: (status := bench.status()) and status["phase"] == "agent", "the agent to run")
    status = bench.status()
    assert status is not None
    return status["pid"]


async def test_a_runner_that_was_killed_is_a_sandbox_error(plain_bench: Bench) -> None:
    backend = await plain_bench.backend()
    await backend.start(plain_bench.box("exec sleep 600"))
    os.kill(await running(plain_bench), 9)
    assert "died in phase 'agent'" in str((await ended(backend)).error)
    await backend.close()


async def test_a_runner_that_was_killed_before_it_was_asked_for_is_made_up_for(tmp_path: Path) -> None:
    before, spawner = psutil.Process().children(), Spawner()
    with (tmp_path / "log").open("wb") as log:
        first = spawner.spawn(tmp_path / "none", log.fileno())
        server = next(child for child in psutil.Process().children() if child not in before)

        def waiting() -> list[psutil.Process]:
            return [child for child in server.children() if child.pid != first]

        await until(waiting, "the next runner to be forked")
        waiting()[0].kill()
        assert spawner.spawn(tmp_path / "none", log.fileno()) not in (0, first)
    spawner.close()
    assert [child for child in psutil.Process().children() if child not in before and child != server] == []


async def test_a_sandbox_whose_runner_never_lived_is_a_sandbox_error(plain_bench: Bench) -> None:
    backend = await plain_bench.backend()
    (plain_bench.sandboxes / "r1-a1").mkdir()  # all that an orchestrator did that was killed there
    assert "died in phase None" in str((await ended(backend)).error)
    await backend.close()


async def test_what_a_runner_said_before_it_died_is_told(plain_bench: Bench) -> None:
    box = plain_bench.box("true")
    del box.spec["phases"]  # type: ignore[misc]
    backend = await plain_bench.backend()
    await backend.start(box)
    assert "KeyError: 'phases'" in str((await ended(backend)).error)
    await backend.close()


async def test_a_runner_that_hangs_is_killed_with_all_below_it_after_the_grace(plain_bench: Bench) -> None:
    backend = await plain_bench.backend()
    await backend.start(plain_bench.box("sleep 615 & sleep 616"))
    os.kill(await running(plain_bench), 19)
    await backend.end("r1-a1", 0.2)
    async with asyncio.timeout(5):
        assert "died in phase 'agent'" in str((await ended(backend)).error)
    assert processes_with("sleep\x00615") == []
    await backend.close()


async def test_a_runner_that_cannot_be_killed_is_a_sandbox_error(plain_bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "KILL_S", 0.1)
    monkeypatch.setattr(local, "kill_tree", lambda process: os.close(process.fd))
    backend = await plain_bench.backend()
    await backend.start(plain_bench.box("exec sleep 600"))
    pid = await running(plain_bench)
    with pytest.raises(SandboxError, match="is not gone"):
        await backend.remove("r1-a1")
    os.kill(pid, 9)
    await ended(backend)
    await backend.close()


def test_who_is_to_be_killed_later_is_not_mistaken_for_the_next_one() -> None:
    first, second = (subprocess.Popen(["sleep", "600"]) for _ in range(2))
    one = Process(first.pid, os.pidfd_open(first.pid))
    later = held(one)
    first.kill()
    first.wait()
    os.close(one.fd)  # as whoever watches it does
    other = os.pidfd_open(second.pid)
    assert other == one.fd
    kill_tree(later)
    assert second.poll() is None
    second.kill()
    second.wait()
    os.close(other)


def test_the_late_answer_of_a_runner_server_is_not_taken_for_that_to_the_next_request(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(0.05)
    slow = subprocess.Popen(["sleep", "600"])
    spawner = Spawner()
    spawner._socket, spawner._pid = ours, slow.pid
    with (tmp_path / "log").open("wb") as log:
        with pytest.raises(TimeoutError):
            spawner.spawn(tmp_path / "one.json", log.fileno())
        with suppress(OSError):
            theirs.send(b"1\n")
        (tmp_path / "two.json").write_text("{}")
        pid = spawner.spawn(tmp_path / "two.json", log.fileno())
    assert pid > 1
    spawner.close()
    theirs.close()


async def test_sessions_of_any_name_are_found_again(plain_bench: Bench) -> None:
    backend = await plain_bench.backend()
    (plain_bench.sandboxes / "etc-hosts-a1").mkdir()
    assert [seen.name for seen in await backend.present()] == ["etc-hosts-a1"]
    await backend.close()


async def test_no_zombie_is_left(plain_bench: Bench) -> None:
    await plain_bench.run("true")
    status = plain_bench.status()
    assert status is not None
    assert not Path(f"/proc/{status['pid']}").exists()


async def test_a_command_runs_where_the_agent_runs_and_as_the_same_user(bench: Bench) -> None:
    backend = await bench.backend()
    await backend.start(bench.box(f"({WHO}) > who; touch ready; exec sleep 600"))
    await until(lambda: bench.inside("app/ready").exists(), "the agent to run")
    ran = await backend.run("r1-a1", ["/bin/sh", "-c", f"{WHO}; echo; cat who; echo; pwd; ls /logs 2>/dev/null"], 10)
    mine, agents, seen = ran.output.decode().split("\n\n")
    assert mine == agents.strip()
    folder, *logs = seen.split()
    assert (folder, logs) == (
        ("/app", ["agent", "artifacts"]) if bench.isolation.kind == "bubblewrap" else (str(bench.inside("app")), [])
    )
    await backend.remove("r1-a1")
    await backend.close()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_commands_and_copies_reach_the_sandboxes_of_somebody_who_is_not_root(bubblewrap_bench: Bench) -> None:
    """Runs tests of this folder and of the contract as another user: without root a sandbox has user namespaces."""
    become, project = bubblewrap_bench.isolation.drop, Path(__file__).parents[3]
    if not become:
        pytest.skip("without root, these tests run as somebody already")
    base = bubblewrap_bench.open_folder / "theirs"
    base.mkdir()
    os.chown(base, OTHER_UID, OTHER_UID)
    name = test_a_command_runs_where_the_agent_runs_and_as_the_same_user.__name__
    show = [bubblewrap_bench.isolation.bwrap, "--dev-bind", "/", "/", *showing(project), "--"]
    argv = [*show, *become, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={base}/t",
            "-k", "bubblewrap or (local and copied)",
            f"{__file__}::{name}", "tests/contract/test_backend_contract.py"]  # fmt: skip
    env = {"PATH": PATH, "PYTHONPATH": str(project), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(argv, env=env, cwd=project, capture_output=True, text=True, check=False)
    assert "4 passed" in done.stdout, done.stdout + done.stderr


def test_it_works_under_uvloop(plain_bench: Bench) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(plain_bench.run("true"))["phase"] == "done"


def test_a_start_costs_little_more_than_python_itself() -> None:
    """Imports are what a start costs; these are all that the runner may have (json alone brings most of them)."""
    code = (
        "import sys; before = set(sys.modules); import services.orchestrator.runner.phases; print(*set(sys.modules) - before)"
    )
    listed = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3]
    )
    heavy = {"typing", "contextlib", "subprocess", "threading", "shutil", "tempfile", "logging", "pathlib", "asyncio"}
    assert not heavy & set(listed.stdout.split())
