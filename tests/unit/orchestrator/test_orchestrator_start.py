"""How a program comes to be: its process is there beforehand, is told what to become, and waits until its files are there."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import cast

import psutil
import pytest

from services.orchestrator.backends.spawner import Spawner
from services.orchestrator.runner.files import TaskFault, user_ids
from services.orchestrator.runner.loop import Loop
from services.orchestrator.runner.mark import Mark
from services.orchestrator.runner.start import Starter
from services.orchestrator.spec import Phase, Spec
from tests.unit.orchestrator.house import until
from tests.unit.orchestrator.runners import Bench

BARE = cast(Spec, {"cgroups": [], "rlimits": {}})


def phase(script: str) -> Phase:
    """What a starter reads of a phase."""
    told = {"user": "", "drops": False, "argv": ["/bin/sh", "-c", script], "env": {}, "cwd": "/", "monitored": False}
    return cast(Phase, told)


def code(starter: Starter) -> int:
    """Its exit code, once it ended."""
    return os.waitstatus_to_exitcode(os.waitpid(starter.pid, 0)[1])


def test_a_program_begins_only_when_its_mark_is_there_and_the_mark_tells_that_it_did(tmp_path: Path) -> None:
    loop, starter = Loop(), Starter(own_network=False)
    mark = Mark(loop)
    with (tmp_path / "said").open("wb") as output:
        starter.go(phase("echo began; exit 7"), BARE, output.fileno(), mark.theirs.fileno())
    time.sleep(0.2)
    assert ((tmp_path / "said").read_text(), mark.taken) == ("", 0.0)
    mark.give()
    assert code(starter) == 7
    mark.close()
    assert mark.taken > 0
    assert (tmp_path / "said").read_text() == "began\n"


def test_a_mark_that_is_closed_before_it_was_given_lets_no_program_begin(tmp_path: Path) -> None:
    starter, mark = Starter(own_network=False), Mark(Loop())
    with (tmp_path / "said").open("wb") as output:
        starter.go(phase("echo began"), BARE, output.fileno(), mark.theirs.fileno())
    mark.close()
    assert code(starter) == 127
    assert ((tmp_path / "said").read_text(), mark.taken) == ("", 0.0)


def test_a_mark_that_nobody_took_does_not_tell_that_a_sandbox_stands() -> None:
    mark = Mark(Loop())
    theirs = socket.socket(fileno=os.dup(mark.theirs.fileno()))
    mark.give()
    theirs.close()  # with the byte in it
    mark.close()
    mark.close()
    assert mark.taken == 0.0


@pytest.mark.parametrize("own_network", [False, True])
def test_one_that_is_let_go_of_before_it_was_told_ends(own_network: bool) -> None:
    if own_network and os.geteuid():
        pytest.skip("not every machine lets others make networks")
    starter = Starter(own_network)
    starter.close()
    assert code(starter) == 0


def test_a_large_order_arrives_whole(tmp_path: Path) -> None:
    starter, mark = Starter(own_network=False), Mark(Loop())
    order = phase('echo "${#A} ${#B} ${#C}"')
    order["env"] = dict.fromkeys("ABC", "x" * 100_000)
    with (tmp_path / "said").open("wb") as output:
        starter.go(order, BARE, output.fileno(), mark.theirs.fileno())
    mark.give()
    assert code(starter) == 0
    assert (tmp_path / "said").read_text() == "100000 100000 100000\n"


async def test_no_file_of_the_runner_is_open_in_a_program(bench: Bench) -> None:
    status = await bench.run("ls /proc/self/fd")
    assert status["phase"] == "done"
    assert bench.log("agent").split() == ["0", "1", "2", "3"]  # the last is that of ls


async def test_an_agent_whose_files_cannot_be_laid_out_never_begins(bench: Bench) -> None:
    spec = bench.spec("echo began")
    spec["phases"][0]["files"]["/proc/no/such/folder/note"] = "text"
    status = await bench.carry_out(spec)
    assert (status["phase"], status["phases"]) == ("failed", {})
    assert bench.log("agent") == ""


async def test_who_waits_to_be_asked_for_ends_with_the_server(tmp_path: Path) -> None:
    before, spawner = psutil.Process().children(), Spawner(own_network=os.geteuid() == 0)
    with (tmp_path / "log").open("wb") as log:
        first = spawner.spawn(tmp_path / "none", log.fileno())
    [server] = [child for child in psutil.Process().children() if child not in before]
    await until(lambda: len(waiting(server, first)) == 2, "the next runner and its first program to wait")
    both = waiting(server, first)
    spawner.close()
    await until(lambda: not any(each.is_running() for each in both), "both to end")


def test_a_user_that_is_not_there_is_the_tasks_fault() -> None:
    with pytest.raises(TaskFault, match="no user or group"):
        user_ids("no-such-user")


def waiting(server: psutil.Process, asked: int) -> list[psutil.Process]:
    """The processes that a server has ahead."""
    return [child for child in server.children(recursive=True) if child.pid != asked]
