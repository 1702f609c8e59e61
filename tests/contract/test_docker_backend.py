"""Containers of a real engine: what the suite of all backends does not ask of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.orchestrator.backends.docker.container import container_name
from services.orchestrator.backends.docker.view import View
from services.orchestrator.backends.port import FORGOTTEN_S, Resources
from shared.errors import AgentMemory, ImageError, SandboxError
from tests.contract.docker_room import DONE, Room, open_room
from tests.waiting import eventually

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("docker_engine")]


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[Room]:
    async with open_room(tmp_path) as opened:
        opened.watch()
        yield opened


async def test_a_sandbox_is_made_runs_and_leaves_its_runners_status(room: Room) -> None:
    await room.start("s1")
    ended = await room.until("s1", "ended")
    assert ended.error is None
    assert ended.status is not None
    assert ended.status["phase"] == "done"
    stages = [seen.stage for seen in room.told if seen.name == "s1"]
    assert stages == sorted(stages, key=["pull", "boot", "run", "ended"].index)
    assert stages[0] == "pull"


async def test_asked_twice_there_is_one(room: Room) -> None:
    await room.start("s1", "sleep 60")
    await room.start("s1", "sleep 60")
    await room.until("s1", "run")
    await room.start("s1", "sleep 60")
    assert [(seen.name, seen.stage) for seen in await room.backend.present()] == [("s1", "run")]


async def test_what_began_and_ended_since_it_was_listed_is_not_run_again(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    async def listed(self: View) -> dict[str, str]:
        return {"s1": "created"}

    await room.start("s1", f"echo once; {DONE}")
    await room.until("s1", "ended")
    with monkeypatch.context() as then:
        then.setattr(View, "states", listed)
        await room.backend.present()
    assert [seen.stage for seen in await room.backend.present()] == ["ended"]
    await asyncio.sleep(0.5)
    assert (await room.backend.logs("s1")).count(b"once") == 1


async def test_what_ended_is_seen_as_ended_though_it_is_still_listed_as_running(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy engine of 20.10 does so, after it told of the end."""

    async def listed(self: View) -> dict[str, str]:
        return {"s1": "running", "gone": "running"}

    await room.start("s1", DONE)
    await room.until("s1", "ended")
    monkeypatch.setattr(View, "states", listed)
    s1, gone = await room.backend.present()
    assert (s1.stage, gone.stage, s1.error) == ("ended", "ended", None)
    assert "removed by somebody else" in str(gone.error)
    await room.backend.remove("gone")
    assert [seen.name for seen in await room.backend.present()] == ["s1"]


async def test_what_a_runner_left_is_not_believed_if_it_failed(room: Room) -> None:
    await room.start("s1", f"{DONE}; exit 9")
    ended = await room.until("s1", "ended")
    assert ended.status is None
    assert "exit code 9" in str(ended.error)


async def test_a_runner_that_leaves_nothing_is_an_error(room: Room) -> None:
    await room.start("s1", "echo hello")
    assert "left no status" in str((await room.until("s1", "ended")).error)


@pytest.mark.parametrize(
    "made", ["mkdir $OPENFORGE_STATUS", "head -c 300000 /dev/zero >$OPENFORGE_STATUS", "ln -s /etc/passwd $OPENFORGE_STATUS"]
)
async def test_something_else_in_place_of_a_status_is_an_error(room: Room, made: str) -> None:
    await room.start("s1", made)
    ended = await room.until("s1", "ended")
    assert ended.status is None
    assert isinstance(ended.error, SandboxError)


async def test_more_memory_than_was_given_is_the_agents_doing(room: Room) -> None:
    await room.start("s1", "exec tail /dev/zero", resources=Resources(memory_mb=32))
    assert isinstance((await room.until("s1", "ended")).error, AgentMemory)


async def test_more_processes_than_were_given_cannot_be_had(room: Room) -> None:
    script = f"(for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 20 & done) 2>&1 | head -n 1; {DONE}"
    await room.start("s1", script, resources=Resources(pids=8))
    await room.until("s1", "ended")
    assert b"annot fork" in await room.backend.logs("s1")


async def test_there_is_no_network_and_nothing_of_the_tools_can_be_written(room: Room) -> None:
    script = f"ls /sys/class/net; touch /openforge/x /openforge-proxy/x; grep -E 'NoNewPrivs|CapBnd' /proc/self/status; {DONE}"
    await room.start("s1", f"exec 2>&1; {script}")  # the engine reads both outputs, in no order
    await room.until("s1", "ended")
    said = (await room.backend.logs("s1")).decode().splitlines()
    assert said[0] == "lo"
    assert said[1] != "eth0"
    assert len([line for line in said if "Read-only file system" in line]) == 2
    assert "NoNewPrivs:\t1" in said
    assert "CapBnd:\t00000000000000fb" in said


async def test_a_task_may_have_the_internets_network(room: Room) -> None:
    await room.start("s1", f"ls /sys/class/net; {DONE}", network="public")
    await room.until("s1", "ended")
    assert "eth0" in (await room.backend.logs("s1")).decode().split()


async def test_an_image_that_cannot_be_pulled_is_an_error_of_its_own(room: Room) -> None:
    await room.start("s1", image="openforge-no-such-image:1")
    error = (await room.until("s1", "ended")).error
    assert isinstance(error, ImageError)
    assert "openforge-no-such-image:1" in str(error)
    assert [seen.stage for seen in await room.backend.present()] == ["ended"]
    await room.backend.remove("s1")
    assert await room.backend.present() == []


async def test_what_is_ended_gets_its_time_and_is_killed_after_it(room: Room) -> None:
    await room.start("s1", "trap 'echo asked; exit 0' TERM; while :; do sleep 0.1; done")
    await room.start("s2", "trap 'echo no' TERM; while :; do sleep 0.1; done")
    for name in ("s1", "s2"):
        await room.until(name, "run")
    for name in ("s1", "s2"):
        await room.backend.end(name, 1.0)
    assert "left no status" in str((await room.until("s1", "ended")).error)
    assert "killed from outside" in str((await room.until("s2", "ended")).error)
    assert (await room.backend.logs("s1"), await room.backend.logs("s2")) == (b"asked\n", b"no\n")


async def test_what_is_not_there_can_be_ended_and_removed(room: Room) -> None:
    await room.backend.end("no-such", 1.0)
    await room.backend.remove("no-such")


async def test_what_somebody_else_removes_is_told_as_vanished(room: Room) -> None:
    await room.start("s1", "sleep 60")
    await room.until("s1", "run")
    await room.docker.containers.container(container_name(room.run, "s1")).delete(force=True)
    ended = await room.until("s1", "ended")
    assert isinstance(ended.error, SandboxError)


async def test_what_is_removed_by_its_owner_is_not_told_as_vanished(room: Room) -> None:
    await room.start("s1")
    await room.until("s1", "ended")
    before = len(room.told)
    await room.backend.remove("s1")
    await room.start("s2")
    await room.until("s2", "ended")
    assert [seen for seen in room.told[before:] if seen.name == "s1"] == []


async def test_what_nobody_came_back_for_is_removed_by_whoever_starts_next_and_nothing_else_is(room: Room) -> None:
    await room.start("s1", deadline_s=-FORGOTTEN_S - 60)
    await room.start("s2")
    await room.until("s1", "ended")
    await room.until("s2", "ended")
    stranger = room.another(run="another")
    await stranger.open()

    async def removed() -> bool:
        return [seen.name for seen in await room.backend.present()] == ["s2"]

    await eventually(removed)
    await stranger.close()


async def test_a_successor_finds_all_and_starts_what_was_made_but_not_started(room: Room) -> None:
    await room.start("s1", "sleep 60")
    await room.start("s2")
    await room.until("s1", "run")
    await room.until("s2", "ended")
    made = await room.docker.containers.container(container_name(room.run, "s1")).show()
    config = made["Config"] | {"HostConfig": made["HostConfig"]}
    config["Labels"] = config["Labels"] | {"openforge.session": "s3"}
    await room.docker.containers.create(config, name=container_name(room.run, "s3"))
    successor = room.another()
    try:
        found = {seen.name: seen.stage for seen in await successor.present()}
        assert found["s1"] == "run"
        assert found["s2"] == "ended"
        await room.until("s3", "run")
    finally:
        await successor.close()


async def test_commands_run_as_the_agents_user_in_its_folder(room: Room) -> None:
    await room.start("s1", "sleep 60")
    await room.until("s1", "run")
    ran = await room.backend.run("s1", ["/bin/sh", "-c", "id -u; pwd; exit 3"], 20.0)
    assert (ran.exit_code, ran.output) == (3, b"65534\n/tmp\n")


async def test_a_command_that_does_not_end_is_killed(room: Room) -> None:
    await room.start("s1", "sleep 60")
    await room.until("s1", "run")
    with pytest.raises(SandboxError, match="did not end within 1 s"):
        await room.backend.run("s1", ["sleep", "77"], 1.0)
    ran = await room.backend.run("s1", ["/bin/sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"], 20.0)
    assert b"sleep 77" not in ran.output


async def test_folders_are_copied_in_as_the_agents(room: Room, tmp_path: Path) -> None:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "deep" / "a.txt").write_text("hello")
    await room.start("s1", "sleep 60")
    await room.until("s1", "run")
    await room.backend.copy_in("s1", tmp_path / "in", "/work/here")
    ran = await room.backend.run("s1", ["/bin/sh", "-c", "cd /work/here && stat -c '%u %n' deep/a.txt && cat deep/a.txt"], 20.0)
    assert ran.output == b"65534 deep/a.txt\nhello"
