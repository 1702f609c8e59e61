"""What every backend of sandboxes promises: stated once, for the twin, for this machine, for docker and for Kubernetes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.orchestrator.backends.port import Backend
from shared.errors import SandboxError
from tests.contract.backend_kit import Kit, printed, seen_as, text_file

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
async def kit(backend_kit: Kit) -> AsyncIterator[Kit]:
    yield backend_kit
    await backend_kit.close()


@pytest.fixture
async def backend(kit: Kit) -> AsyncIterator[Backend]:
    backend = await kit.backend()
    yield backend
    await backend.close()


async def names(backend: Backend) -> list[str]:
    return sorted(seen.name for seen in await backend.present())


# --- from the start to the end -----------------------------------------------------------------------------------------


async def test_a_sandbox_runs_its_agent_and_then_its_verifier_and_tells_the_end(kit: Kit, backend: Backend) -> None:
    await backend.start(kit.box("echo hello > out.txt; exit 3"))
    seen = await seen_as(backend, "ended")
    assert seen.error is None
    assert seen.status is not None
    assert seen.status["phase"] == "done"
    agent, verify = seen.status["phases"]["agent"], seen.status["phases"]["verify"]
    assert (agent["exit_code"], agent["timed_out"]) == (3, False)
    assert verify["collected"] == {"reward.txt": "1\n"}


async def test_the_end_of_a_sandbox_names_its_image_where_there_is_one_and_the_same_for_the_same(
    kit: Kit, backend: Backend
) -> None:
    found = set()
    for name in ("r1-a1", "r2-a1"):
        await backend.start(kit.box("exit 0", name))
        found.add((await seen_as(backend, "ended", name)).image)
    [image] = found
    assert bool(image) == kit.images
    assert not image or "sha256:" in image


async def test_an_agent_that_is_out_of_time_is_ended_and_verified(kit: Kit, backend: Backend) -> None:
    await backend.start(kit.box("echo hello > out.txt; sleep 600", timeout_s=2.0))
    status = (await seen_as(backend, "ended")).status
    assert status is not None
    assert status["phases"]["agent"]["timed_out"]
    assert status["phases"]["verify"]["collected"] == {"reward.txt": "1\n"}


async def test_asking_twice_makes_one_sandbox(kit: Kit, backend: Backend) -> None:
    await backend.start(kit.box("echo first; sleep 600"))
    await printed(backend, "first")
    await backend.start(kit.box("echo second; sleep 600"))
    assert await names(backend) == ["r1-a1"]
    other = await kit.backend()
    await other.start(kit.box("echo third; sleep 600"))
    await other.close()
    await asyncio.sleep(0.5)
    logs = await backend.logs("r1-a1")
    assert (logs.count(b"first"), logs.count(b"second"), logs.count(b"third")) == (1, 0, 0)


async def test_asking_for_many_at_once_gives_each_its_own(kit: Kit, backend: Backend) -> None:
    boxes = [kit.box(f"echo this is {n}; exit {n}", f"r{n}-a1") for n in range(8)]
    await asyncio.gather(*(backend.start(box) for box in boxes))
    for n in range(8):
        status = (await seen_as(backend, "ended", f"r{n}-a1")).status
        assert status is not None
        assert status["phases"]["agent"]["exit_code"] == n
        assert b"this is %d\n" % n in await backend.logs(f"r{n}-a1")


async def test_what_agents_print_is_in_the_logs_also_after_the_end(kit: Kit, backend: Backend) -> None:
    await backend.start(kit.box("echo some words; sleep 600"))
    await printed(backend, "some words")
    await backend.end("r1-a1", 5)
    await seen_as(backend, "ended")
    assert b"--- agent ---" in await backend.logs("r1-a1")
    assert b"some words" in await backend.logs("r1-a1")
    assert await backend.logs("nobody-a1") == b""


async def test_what_cannot_work_is_told_as_an_error_with_a_reason(kit: Kit, backend: Backend) -> None:
    try:
        await backend.start(kit.broken())
        seen = await seen_as(backend, "ended")
        status = seen.status
        error = seen.error or SandboxError(status["error"] if status else None)
    except SandboxError as e:
        error = e
    assert len(str(error)) > 10
    assert str(error) != "None"


# --- inside ------------------------------------------------------------------------------------------------------------


async def test_a_command_runs_beside_the_agent_in_its_working_folder(kit: Kit, backend: Backend) -> None:
    await backend.start(kit.box("echo word > file; echo ready; sleep 600"))
    await printed(backend, "ready")
    ran = await backend.run("r1-a1", ["/bin/sh", "-c", "cat file; exit 7"], 30)
    assert (ran.exit_code, ran.output) == (7, b"word\n")


async def test_a_command_that_hangs_is_killed_and_said_so(kit: Kit, backend: Backend) -> None:
    await backend.start(kit.box("echo ready; sleep 600"))
    await printed(backend, "ready")
    before = time.monotonic()
    with pytest.raises(SandboxError, match="did not end within"):
        await backend.run("r1-a1", ["/bin/sh", "-c", "sleep 600"], 1)
    assert time.monotonic() - before < 20


async def test_folders_are_copied_in_and_out(kit: Kit, backend: Backend, tmp_path: Path) -> None:
    await backend.start(kit.box("echo ready; sleep 600"))
    await printed(backend, "ready")
    source = text_file(tmp_path / "in" / "inner", "a b.txt", "text").parent
    await backend.copy_in("r1-a1", source, f"{kit.workdir}/new")
    assert (await backend.run("r1-a1", ["cat", f"{kit.workdir}/new/inner/a b.txt"], 30)).output == b"text"
    await backend.copy_out("r1-a1", f"{kit.workdir}/new", tmp_path / "out")
    assert (tmp_path / "out" / "new" / "inner" / "a b.txt").read_text() == "text"
    await backend.copy_out("r1-a1", f"{kit.workdir}/new/inner/a b.txt", tmp_path / "one")
    assert (tmp_path / "one" / "a b.txt").read_text() == "text"


async def test_what_is_not_there_cannot_be_copied_or_run_in(kit: Kit, backend: Backend, tmp_path: Path) -> None:
    with pytest.raises(SandboxError):
        await backend.run("nobody-a1", ["cat", "x"], 5)
    await backend.start(kit.box("echo ready; sleep 600"))
    await printed(backend, "ready")
    with pytest.raises(SandboxError):
        await backend.copy_out("r1-a1", f"{kit.workdir}/no-such-file", tmp_path / "out")


async def test_what_a_sandbox_leaves_is_copied_out_after_its_end(kit: Kit, backend: Backend, tmp_path: Path) -> None:
    box = kit.box("echo hello > out.txt")
    if backend.kind == "kubernetes":  # of an ended pod there is what its spec says
        box.spec["leaves"] = [f"{kit.workdir}/{name}" for name in ("out.txt", "no-such-file")]
    await backend.start(box)
    await seen_as(backend, "ended")
    await backend.copy_out("r1-a1", f"{kit.workdir}/out.txt", tmp_path / "out")
    assert (tmp_path / "out" / "out.txt").read_text() == "hello\n"
    with pytest.raises(SandboxError):
        await backend.copy_out("r1-a1", f"{kit.workdir}/no-such-file", tmp_path / "other")
    with pytest.raises(SandboxError):
        await backend.copy_out("nobody-a1", f"{kit.workdir}/out.txt", tmp_path / "other")


# --- the end that is asked for -----------------------------------------------------------------------------------------


async def test_a_sandbox_ends_when_asked_to_and_says_so(kit: Kit, backend: Backend) -> None:
    await backend.start(kit.box("echo ready; sleep 600"))
    await printed(backend, "ready")
    await backend.end("r1-a1", 10)
    seen = await seen_as(backend, "ended")
    assert seen.status is not None
    assert seen.status["phase"] == "cancelled"
    assert "verify" not in seen.status["phases"]


async def test_an_agent_that_does_not_want_to_end_is_killed(kit: Kit, backend: Backend) -> None:
    await backend.start(kit.box("trap '' TERM; echo ready; sleep 600; sleep 600; sleep 600"))
    await printed(backend, "ready")
    before = time.monotonic()
    await backend.end("r1-a1", 5)
    await seen_as(backend, "ended")
    assert time.monotonic() - before < 20


async def test_ending_and_removing_what_is_not_there_does_nothing(backend: Backend) -> None:
    await backend.end("nobody-a1", 1)
    await backend.remove("nobody-a1")


async def test_a_removed_sandbox_is_not_there_any_more_and_its_name_is_free(kit: Kit, backend: Backend) -> None:
    await backend.start(kit.box("exit 1"))
    await seen_as(backend, "ended")
    assert await names(backend) == ["r1-a1"]
    await backend.remove("r1-a1")
    await backend.remove("r1-a1")
    assert await names(backend) == []


async def test_a_running_sandbox_that_is_removed_is_killed(kit: Kit, backend: Backend) -> None:
    await backend.start(kit.box("echo ready; sleep 600"))
    await printed(backend, "ready")
    await backend.remove("r1-a1")
    assert await names(backend) == []


# --- watching ----------------------------------------------------------------------------------------------------------


async def test_stages_are_told_in_order(kit: Kit, backend: Backend) -> None:
    told: list[str] = []

    async def listen() -> None:
        async for seen in backend.watch():
            told.append(seen.stage)
            if seen.stage == "ended":
                return

    listening = asyncio.create_task(listen())
    await asyncio.sleep(0.1)
    await backend.start(kit.box("sleep 1"))
    async with asyncio.timeout(60):
        await listening
    order = ["schedule", "pull", "boot", "run", "ended"]
    assert told == sorted(told, key=order.index)
    assert told[-2:] == ["run", "ended"]


async def test_what_there_was_before_is_told_first(kit: Kit, backend: Backend) -> None:
    await backend.start(kit.box("exit 0", "over-a1"))
    await backend.start(kit.box("sleep 600", "on-a1"))
    await seen_as(backend, "ended", "over-a1")
    await seen_as(backend, "run", "on-a1")
    found: dict[str, str] = {}
    async with asyncio.timeout(30):
        async for seen in backend.watch():
            found[seen.name] = seen.stage
            if len(found) == 2:
                break
    assert found == {"over-a1": "ended", "on-a1": "run"}


async def test_several_may_watch(kit: Kit, backend: Backend) -> None:
    watching = [asyncio.create_task(seen_as(backend, "ended")) for _ in range(3)]
    await asyncio.sleep(0.1)
    await backend.start(kit.box("exit 0"))
    assert [seen.name for seen in await asyncio.gather(*watching)] == ["r1-a1"] * 3


async def test_an_end_during_a_break_of_the_connection_is_told_afterwards(kit: Kit, backend: Backend) -> None:
    watching = asyncio.create_task(seen_as(backend, "ended"))
    await backend.start(kit.box("sleep 2; exit 4"))
    await seen_as(backend, "run")
    await kit.interrupt()
    status = (await watching).status
    assert status is not None
    assert status["phases"]["agent"]["exit_code"] == 4


async def test_a_sandbox_that_vanished_is_told_as_ended_with_an_error(kit: Kit, backend: Backend) -> None:
    watching = asyncio.create_task(seen_as(backend, "ended"))
    await backend.start(kit.box("echo ready; sleep 600"))
    await printed(backend, "ready")
    await kit.vanish("r1-a1")
    seen = await watching
    assert seen.status is None
    assert isinstance(seen.error, SandboxError)


# --- a successor -------------------------------------------------------------------------------------------------------


async def test_a_successor_takes_over_what_runs(kit: Kit) -> None:
    first = await kit.backend()
    await first.start(kit.box("echo ready; sleep 2; echo hello > out.txt; exit 5"))
    await printed(first, "ready")
    await first.close()
    second = await kit.backend()
    assert [(seen.name, seen.stage) for seen in await second.present()] == [("r1-a1", "run")]
    status = (await seen_as(second, "ended")).status
    assert status is not None
    assert status["phases"]["agent"]["exit_code"] == 5
    assert status["phases"]["verify"]["collected"] == {"reward.txt": "1\n"}
    assert b"ready" in await second.logs("r1-a1")
    await second.close()


async def test_a_successor_ends_what_it_took_over(kit: Kit) -> None:
    first = await kit.backend()
    await first.start(kit.box("echo ready; sleep 600"))
    await printed(first, "ready")
    await first.close()
    second = await kit.backend()
    await second.end("r1-a1", 10)
    status = (await seen_as(second, "ended")).status
    assert status is not None
    assert status["phase"] == "cancelled"
    await second.close()


async def test_a_successor_still_learns_of_an_end_that_nobody_saw(kit: Kit) -> None:
    first = await kit.backend()
    await first.start(kit.box("sleep 1; exit 6"))
    await first.close()
    await asyncio.sleep(4)
    second = await kit.backend()
    status = (await seen_as(second, "ended")).status
    assert status is not None
    assert status["phases"]["agent"]["exit_code"] == 6
    await second.close()
