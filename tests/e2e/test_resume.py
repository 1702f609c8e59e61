"""Ctrl-C of `openforge run`, `openforge resume`, and a trainer that is killed meanwhile, on a whole stack with the real trainer
and a scripted engine."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import pytest

from tests.e2e.stacks import find_service, openforge, start, write_config
from tests.e2e.test_stack_rollouts import write_task
from tests.e2e.trained import steps_begun
from tests.engine.script import Rule, Script
from tests.engine.tied_model import make_tied_model

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(1800)]
SETTINGS = """
[orchestrator]
reward = "coin"
[bus]
ack_wait_s = 3.0
[trainer]
steps = 4
groups = 1
n = 8
save_freq = 2
eval_episodes = 0
probe_gap = 1e6
[trainer.optim]
lr = 1e-3
"""


async def heard(process: asyncio.subprocess.Process, words: str) -> str:
    """What a command says until it says some words."""
    assert process.stdout is not None
    said = ""
    while words not in said:
        line = await asyncio.wait_for(process.stdout.readline(), 300)
        assert line, said
        said += line.decode()
    return said


def lines_of(run: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.usefixtures("nothing_left")
async def test_a_run_goes_on_after_ctrl_c_and_by_itself_after_its_trainer_was_killed(tmp_path: Path) -> None:
    make_tied_model(tmp_path / "model")
    write_task(tmp_path, "write", "cat seed.txt > out.txt", "seed")
    config = write_config(tmp_path, SETTINGS, Script(rules=[Rule(text="answer {number}")]))
    sets = ["run.id=run-1", f"tasks.train={tmp_path}", f"engine.model={tmp_path}/model"]
    process = await start("run", str(config), *(word for text in sets for word in ("--set", text)))
    await heard(process, "step 1:")
    process.send_signal(signal.SIGINT)
    said = (await asyncio.wait_for(process.communicate(), 120))[0].decode()
    assert process.returncode == 130
    assert f"openforge resume run-1 --root {tmp_path}/runs" in said
    code, out = await openforge("resume", "run-1", "--root", f"{tmp_path}/runs", "--set", "trainer.steps=3", timeout_s=400)
    assert code == 0, out
    further = ["--set", "trainer.steps=10", "--set", "trainer.save_freq=0"]  # so that it is not over before it is killed
    process = await start("resume", "run-1", "--root", f"{tmp_path}/runs", *further)
    said = await heard(process, "step 4:")
    assert process.pid is not None
    find_service(process.pid, "trainer").kill()
    said += (await asyncio.wait_for(process.communicate(), 400))[0].decode()
    assert process.returncode == 0, said
    assert "trainer died (signal SIGKILL) and was restarted" in said
    killed = tmp_path / "runs" / "run-1"
    lines = lines_of(killed)
    assert [line["step"] for line in lines] == list(range(1, 11))
    (after,) = [line for line in lines[4:] if "resume/steps" in line]
    assert after["resume/steps"] >= 1
    assert after["resume/difference"] < 1e-6  # they come out as they did
    summary = json.loads((killed / "summary.json").read_text())
    assert (summary["ok"], summary["steps"]) == (True, 10)
    assert set(steps_begun(killed).values()) == {1}
