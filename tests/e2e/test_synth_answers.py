"""A process that has tasks made by models is killed: what was answered is not asked again, and nothing is lost."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.scripted_builder import good
from tests.scripted_models import KEY, Act, Asked, ScriptedModels
from tests.waiting import until

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(300)]
TASKS = 6


async def life(url: str, folder: Path) -> asyncio.subprocess.Process:
    """Starts tests/e2e/model_maker.py."""
    program = str(Path(__file__).with_name("model_maker.py"))
    env = os.environ | {"THE_KEY": KEY, "PYTHONPATH": str(Path(__file__).parents[2])}
    return await asyncio.create_subprocess_exec(sys.executable, program, url, str(folder), str(TASKS), env=env)


async def test_no_answer_is_paid_for_twice_however_often_the_maker_is_killed(tmp_path: Path) -> None:
    through = 0  # calls that are answered before the others are held up

    def script(asked: Asked) -> Act:
        act = good(asked)
        return act if len(server.answered) < through else Act(act.text, late_s=300.0)

    def held_up() -> bool:
        return len(list(answers.rglob("*.json"))) == through and len(server.asked) > through

    server, answers = ScriptedModels(script), tmp_path / "answers"
    await server.start()
    try:
        for stop in (2, 7):
            through = stop
            process = await life(server.url, tmp_path)
            await until(held_up, 120)
            process.send_signal(signal.SIGKILL)
            await process.wait()
        through = 1000
        process = await life(server.url, tmp_path)
        assert await process.wait() == 0
    finally:
        await server.stop()
    assert Counter(server.answered).most_common(1)[0][1] == 1
    assert len(server.answered) == len(list(answers.rglob("*.json"))) == 3 * TASKS  # an idea, a task and a change each
    assert len(list((tmp_path / "tasks").glob("*/task.toml"))) == TASKS
    assert (tmp_path / "paid").read_text() == f"{3 * TASKS} calls, $0.0054"
