"""Groups of rollouts in containers of a real engine: everything is real but the model."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from shared.events import CallRecorded, Message, RolloutFinished, RolloutStart
from shared.task import load_task
from tests.contract.conftest import docker_engine
from tests.e2e.stacks import live_stack, write_config
from tests.e2e.test_stack_rollouts import closed, watch, write_task
from tests.waiting import until

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.usefixtures("docker_engine")]

__all__ = ["docker_engine"]

DOCKERFILE = """FROM debian:bookworm-slim
RUN echo built >/built.txt
WORKDIR /work
COPY seed.txt .
"""


async def test_a_group_runs_in_containers_of_its_tasks_own_image_and_nothing_is_left_of_it(tmp_path: Path) -> None:
    task = write_task(tmp_path, "t", "cat /built.txt seed.txt > out.txt; ls /sys/class/net >> out.txt", "built\nseed\nlo")
    (task / "environment" / "Dockerfile").write_text(DOCKERFILE)
    assert load_task(task).workdir == "/work"
    seen: list[Message] = []
    config = write_config(tmp_path, '[orchestrator]\nbackend = "docker"\n')
    async with live_stack(config) as stack:
        watching = asyncio.create_task(watch(stack, seen))
        run = stack.config.run.id
        for n in range(4):
            names = {"rollout_id": f"{run}-r{n}", "group_id": f"{run}-g", "group_size": 4}
            await stack.bus.publish(RolloutStart(run_id=run, task_dir=str(task), harness="react", **names))  # type: ignore[arg-type]
        await until(lambda: closed(seen) == {f"{run}-g"}, 400.0)
        watching.cancel()
        finished = [m for m in seen if isinstance(m, RolloutFinished)]
        assert [m.reward for m in finished] == [1.0] * 4
        assert len([m for m in seen if isinstance(m, CallRecorded)]) >= 8
        await until(lambda: not containers(run), 60.0)


def containers(run: str, *options: str) -> list[str]:
    """What is left of a run."""
    listed = ["docker", "ps", "-aq", "--filter", f"label=openforge.run={run}", *options]
    return subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split()
