"""What a user meets when something is wrong: one clear message with the way out, no traceback, no orphan."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import socket
import sys
from pathlib import Path

import psutil
import pytest

from tests.e2e.stacks import TASKS, answers, engine_of, live_stack, openforge, start, write_config
from tests.waiting import eventually


def one_clear_message(out: str) -> str:
    assert "Traceback" not in out, out
    lines = [line for line in out.splitlines() if line.startswith("openforge: ")]
    assert len(lines) == 1, out
    return lines[0]


async def test_unknown_setting(tmp_path: Path) -> None:
    code, out = await openforge("run", str(write_config(tmp_path, "[trainer]\nstepz = 1\n")))
    assert code == 2
    assert "did you mean 'trainer.steps'" in one_clear_message(out)


async def test_missing_configuration(tmp_path: Path) -> None:
    code, out = await openforge("run", str(tmp_path / "none.toml"))
    assert code == 2
    assert "no such file" in one_clear_message(out)


async def test_missing_task_folder(tmp_path: Path) -> None:
    code, out = await openforge("run", str(write_config(tmp_path)), "--set", f"tasks.train={tmp_path}/none")
    assert code == 2
    assert f"{tmp_path}/none" in one_clear_message(out)


async def test_task_without_a_verifier(tmp_path: Path) -> None:
    task = tmp_path / "tasks" / "broken"
    shutil.copytree(next((TASKS / "train").iterdir()), task)
    (task / "tests" / "test.sh").unlink()
    for args in (["run", str(write_config(tmp_path)), "--set", f"tasks.train={task.parent}"], ["rollout", str(task)]):
        code, out = await openforge(*args)
        assert code == 2
        message = one_clear_message(out)
        assert "broken" in message
        assert "tests/test.sh" in message


async def test_busy_port(tmp_path: Path) -> None:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        code, out = await openforge("dev", str(write_config(tmp_path)), "--set", f"proxy.port={s.getsockname()[1]}")
    assert code == 2
    assert "proxy.port=0" in one_clear_message(out)


async def test_full_disk(tmp_path: Path) -> None:
    code, out = await openforge("dev", str(write_config(tmp_path)), "--set", "run.min_free_mb=1000000000")
    assert code == 2
    assert "disk" in one_clear_message(out)


async def test_a_disk_that_fills_up_ends_the_stack(tmp_path: Path) -> None:
    free_mb = shutil.disk_usage(tmp_path).free // 1024**2
    step_mb = min(2000, free_mb // 2)
    async with live_stack(write_config(tmp_path), "--set", f"run.min_free_mb={free_mb - step_mb // 2}") as stack:
        with (tmp_path / "large").open("wb") as large:
            os.posix_fallocate(large.fileno(), 0, step_mb * 1024**2)
            out, _ = await asyncio.wait_for(stack.process.communicate(), 40)
        (tmp_path / "large").unlink()
        assert "is full" in one_clear_message(out.decode())


async def test_no_model(tmp_path: Path) -> None:
    file = write_config(tmp_path)
    code, out = await openforge("dev", str(file), "--set", "engine.command=[]", "--set", f"engine.model={tmp_path}/none")
    assert code == 2
    assert "config.json" in one_clear_message(out)


async def test_nothing_to_attach_to(tmp_path: Path) -> None:
    code, out = await openforge("tap", "--root", str(tmp_path))
    assert code == 2
    assert "openforge dev" in one_clear_message(out)


async def test_an_engine_that_cannot_start(tmp_path: Path) -> None:
    crash = [sys.executable, "-c", "raise SystemExit('RuntimeError: no such device')"]
    code, out = await openforge("dev", str(write_config(tmp_path)), "--set", f"engine.command={crash}")
    assert code == 2
    message = one_clear_message(out)
    assert "engine ended with exit code 1" in message
    assert "no such device" in message


async def test_an_engine_that_dies_is_started_again_and_one_that_keeps_dying_ends_the_stack(tmp_path: Path) -> None:
    async with live_stack(write_config(tmp_path)) as stack:
        family = stack.descendants()
        url = f"{stack.config.engine.url}/health"
        for _ in range(6):  # one death more than is made up for
            await eventually(lambda: answers(url))
            engine_of(stack, "tests.engine.scripted").kill()
        out, _ = await asyncio.wait_for(stack.process.communicate(), 60)
        assert out.decode().count("engine died (signal SIGKILL) and was restarted") == 5
        assert "engine ended with signal SIGKILL" in one_clear_message(out.decode())
        assert not [p for p in family if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("after_s", [0.3, 1.5])
async def test_ctrl_c_while_starting_leaves_nothing(tmp_path: Path, after_s: float) -> None:
    process = await start("dev", str(write_config(tmp_path)))
    await asyncio.sleep(after_s)
    family = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGINT)
    await asyncio.wait_for(process.communicate(), 40)
    assert process.returncode in (130, -signal.SIGINT)
    assert not [p for p in family if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


async def test_a_killed_supervisor_leaves_nothing(tmp_path: Path, nothing_left: Path) -> None:
    async with live_stack(write_config(tmp_path)) as stack:
        family = stack.descendants()
        assert list(nothing_left.glob("openforge.*"))
        stack.process.kill()
        await stack.process.wait()
        _, alive = await asyncio.to_thread(psutil.wait_procs, family, 60)  # as long as each may take
        assert not alive
    code, out = await openforge("runs", "prune", "--keep", "1", "--yes", "--root", f"{tmp_path}/runs")
    assert code == 0, out  # with the temporary files


async def test_check_and_help_and_doctor_tell_the_truth(tmp_path: Path) -> None:
    code, out = await openforge("check", str(write_config(tmp_path)), "--set", "trainer.steps=3")
    assert code == 0
    assert re.search(r"trainer\.steps\s*│\s*3\s*│\s*--set", out)
    code, out = await openforge("check", str(write_config(tmp_path)), "--set", "tasks.train=")
    assert code == 1
    assert "a run cannot start: tasks.train" in out
    code, out = await openforge("doctor")
    assert "bubblewrap" in out
    for verb in ("run", "dev", "serve", "rollout", "tap", "check", "doctor", "runs", "groups", "show", "replay", "export"):
        code, out = await openforge(verb, "--help")
        assert code == 0
        assert len(out) > 200
