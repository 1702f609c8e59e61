"""Ctrl-C of `openforge run`, and `openforge resume`, on a whole stack with the real trainer and a scripted engine."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import pytest

from tests.e2e.stacks import openforge, start, write_config
from tests.e2e.test_stack_rollouts import write_task
from tests.engine.script import Rule, Script
from tests.engine.tied_model import make_tied_model

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]
SETTINGS = """
[orchestrator]
reward = "coin"
[trainer]
steps = 4
groups = 2
n = 4
save_freq = 2
eval_episodes = 0
probe_gap = 1e6
"""


async def test_a_run_goes_on_after_ctrl_c_and_trains_further_when_asked(tmp_path: Path) -> None:
    make_tied_model(tmp_path / "model")
    write_task(tmp_path, "write", "cat seed.txt > out.txt", "seed")
    config = write_config(tmp_path, SETTINGS, Script(rules=[Rule(text="answer {number}")]))
    sets = ["run.id=run-1", f"tasks.train={tmp_path}", f"engine.model={tmp_path}/model"]
    process = await start("run", str(config), *(word for text in sets for word in ("--set", text)))
    assert process.stdout is not None
    said = ""
    while "step 1:" not in said:
        line = await asyncio.wait_for(process.stdout.readline(), 300)
        assert line, said
        said += line.decode()
    process.send_signal(signal.SIGINT)
    said = (await asyncio.wait_for(process.communicate(), 120))[0].decode()
    assert process.returncode == 130
    assert f"openforge resume run-1 --root {tmp_path}/runs" in said
    code, out = await openforge("resume", "run-1", "--root", f"{tmp_path}/runs", "--set", "trainer.steps=3", timeout_s=400)
    assert code == 0, out
    code, out = await openforge("resume", "run-1", "--root", f"{tmp_path}/runs", "--set", "trainer.steps=5", timeout_s=400)
    assert code == 0, out
    lines = (tmp_path / "runs" / "run-1" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1, 2, 3, 4, 5]
    summary = json.loads((tmp_path / "runs" / "run-1" / "summary.json").read_text())
    assert (summary["ok"], summary["steps"]) == (True, 5)
