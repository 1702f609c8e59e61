"""Trainers of one's own on a stack that runs: the example without veRL, and the page's program that needs nothing of ours."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from shared.events import GroupCompleted, Message
from tests.e2e.stacks import REPO, LiveStack, live_stack, write_config
from tests.e2e.test_stack_rollouts import start_groups, watch, write_task
from tests.engine.script import Rule, Script
from tests.engine.tiny_model import make_model

CONFIG = """
[orchestrator]
concurrency = 4
reward = "coin"
[collector]
inline_bytes = 1000
"""
REPLIES = Script(rules=[Rule(text="answer {number}")])
"""Other tokens in every rollout, or there would be nothing to learn."""

pytestmark = pytest.mark.timeout(360)  # torch is imported twice, and a busy machine needs minutes for it


async def python(*args: str | Path) -> asyncio.subprocess.Process:
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    return await asyncio.create_subprocess_exec(sys.executable, *args, cwd=REPO, stdout=asyncio.subprocess.PIPE, env=env)


async def test_trainers_of_ones_own_get_the_groups_of_a_stack(tmp_path: Path) -> None:
    make_model(model := tmp_path / "model")
    task = write_task(tmp_path, "write", "cat seed.txt > out.txt", "seed")
    async with live_stack(write_config(tmp_path, CONFIG, REPLIES)) as stack:
        seen: list[Message] = []
        tap = asyncio.create_task(watch(stack, seen))
        trainer = await python("-m", "examples.own_trainer", model, tmp_path / "out", stack.folder, "2")
        await start_groups(stack, task)
        out, _ = await asyncio.wait_for(trainer.communicate(), 240)
        assert trainer.returncode == 0
        assert out.count(b"4 rewards") >= 2, out
        await check_the_pages_program(stack, tmp_path / "mine.py")
        tap.cancel()
    groups = [m for m in seen if isinstance(m, GroupCompleted)]
    assert groups
    assert all(m.ref is not None and not m.trajectories for m in groups)
    before, after = (load_file(folder / "model.safetensors") for folder in (model, tmp_path / "out"))
    assert not torch.equal(before["lm_head.weight"], after["lm_head.weight"])


async def check_the_pages_program(stack: LiveStack, file: Path) -> None:
    """It says what the first group is."""
    [program] = re.findall(r"```python\n(.*?)```", (REPO / "docs" / "groups.md").read_text(), re.DOTALL)
    file.write_text(program)
    config = stack.config
    process = await python(file, config.bus.url, config.bus.keys, config.run.id)
    assert process.stdout is not None
    line = await asyncio.wait_for(process.stdout.readline(), 30)
    process.kill()
    await process.wait()
    assert line.startswith(b"test/write [] {'key': '"), line
