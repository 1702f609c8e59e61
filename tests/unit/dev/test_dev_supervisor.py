"""Children that die: which are started again, what is done with what they leave, and when it is given up."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from services.dev.process import ProcessSpec, adopt_orphans
from services.dev.supervisor import Supervisor
from tests.waiting import until

pytestmark = pytest.mark.slow


@pytest.fixture
async def supervisor() -> AsyncIterator[Supervisor]:
    made = Supervisor(lambda note: None)
    yield made
    await made.stop()


def engine(folder: Path, **more: object) -> ProcessSpec:
    """A program that leaves a process of its own behind when it is killed."""

    async def ready() -> bool:
        return (folder / "left").exists()

    script = f"sleep 1000 & echo $! > {folder}/left.part; mv {folder}/left.part {folder}/left; wait"
    settings = {"once_ready": True, "whole": True, "backoff_s": 0.01, **more}
    return ProcessSpec("engine", ["/bin/sh", "-c", script], folder / "log", ready=ready, **settings)  # type: ignore[arg-type]


async def killed(supervisor: Supervisor) -> int:
    """Kills the child once it is ready; gives the id of what it left."""
    await supervisor.ready("engine", 20)
    pid = supervisor.pids()["engine"]
    await until(lambda: "engine" in supervisor._once_ready)
    left = int((Path(supervisor._specs["engine"].log).parent / "left").read_text())
    (Path(supervisor._specs["engine"].log).parent / "left").unlink()
    os.kill(pid, 9)
    await until(lambda: supervisor.pids().get("engine") not in (None, pid) or supervisor.failed.done())
    return left


async def test_what_a_dead_child_left_of_its_group_is_ended_before_it_is_started_again(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    await supervisor.start(engine(tmp_path))
    left = await killed(supervisor)
    await until(lambda: not psutil.pid_exists(left) or psutil.Process(left).status() == psutil.STATUS_ZOMBIE)
    await supervisor.ready("engine", 20)
    assert not supervisor.failed.done()


async def test_what_ran_before_the_supervisor_is_left_alone(tmp_path: Path) -> None:
    stranger = await asyncio.create_subprocess_exec("/bin/sh", "-c", "sleep 1000 & wait")
    await until(lambda: len(psutil.Process(stranger.pid).children()) == 1)
    supervisor = Supervisor(lambda note: None)
    await supervisor.start(engine(tmp_path))
    left = await killed(supervisor)
    await supervisor.stop()
    family = [psutil.Process(stranger.pid), *psutil.Process(stranger.pid).children()]
    assert len(family) == 2
    assert not psutil.pid_exists(left)
    for process in family:
        process.kill()
    assert await stranger.wait() == -9  # its end is still ours to see


async def test_orphans_are_taken_in_only_for_as_long_as_it_works() -> None:
    before = adopt_orphans(False)
    supervisor = Supervisor(lambda note: None)
    assert adopt_orphans()
    await supervisor.stop()
    assert not adopt_orphans(before)


async def test_a_child_that_keeps_dying_is_given_up(supervisor: Supervisor, tmp_path: Path) -> None:
    await supervisor.start(engine(tmp_path, restarts=1))
    await killed(supervisor)
    assert not supervisor.failed.done()
    await killed(supervisor)
    assert "engine ended with signal SIGKILL" in str(supervisor.failed.result())


async def test_a_child_that_never_was_ready_is_not_started_again(supervisor: Supervisor, tmp_path: Path) -> None:
    async def never() -> bool:
        return False

    log = tmp_path / "log"
    await supervisor.start(ProcessSpec("engine", ["/bin/sh", "-c", "exit 3"], log, ready=never, once_ready=True))
    await until(supervisor.failed.done)
    assert "engine ended with exit code 3" in str(supervisor.failed.result())


async def test_one_that_failed_is_not_started_again_where_that_would_not_help(supervisor: Supervisor, tmp_path: Path) -> None:
    argv = ["/bin/sh", "-c", "echo 'Error: no such module' >&2; exit 1"]
    await supervisor.start(ProcessSpec("trainer", argv, tmp_path / "log", unless_failed=True))
    await until(supervisor.failed.done)
    assert "trainer ended with exit code 1: Error: no such module" in str(supervisor.failed.result())


async def test_deaths_before_a_child_thrived_do_not_count(supervisor: Supervisor, tmp_path: Path) -> None:
    await supervisor.start(engine(tmp_path, restarts=1, window_s=float("inf"), unless_failed=True))
    for _ in range(3):
        await killed(supervisor)
        supervisor.thrives("engine")
    await killed(supervisor)
    assert not supervisor.failed.done()
    await killed(supervisor)
    assert "because memory ran out" in str(supervisor.failed.result())
