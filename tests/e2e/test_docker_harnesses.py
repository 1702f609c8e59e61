"""Harnesses in containers of a real engine, unmodified: each does its task, and what a group is asked first is the same."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from shared.events import CallRecorded, RolloutFinished, RolloutStart
from tests.conformance.stage import Stage, stage, write_task
from tests.contract.conftest import docker_engine
from tests.waiting import until

pytestmark = [
    pytest.mark.fleet, pytest.mark.real, pytest.mark.slow, pytest.mark.harness, pytest.mark.timeout(1500),
    pytest.mark.usefixtures("docker_engine"),
]  # fmt: skip

__all__ = ["docker_engine"]

BUILD_S = 1200.0
"""The image of a harness may have to be built."""


@pytest.mark.parametrize("harness", ["react", "mini", "claude"])
async def test_a_group_does_its_task_in_containers_and_is_asked_the_same(harness: str, tmp_path: Path) -> None:
    async with stage(tmp_path, jobs=2, mode="splice", backend="docker") as made:
        group = f"{harness}-g"
        for number in range(2):
            await begin(made, harness, group, f"{group}-r{number}")
        await until(lambda: len(outcomes(made, group)) == 2, BUILD_S)
        assert [m.reward for m in outcomes(made, group)] == [1.0, 1.0], made.heard()
        first = first_prompts(made, group)
    assert len(first) == 2
    assert len({tuple(sorted(digests)) for digests in first.values()}) == 1, first


async def begin(made: Stage, harness: str, group: str, rollout: str) -> None:
    """Asks for a rollout of the plainest scene."""
    task = write_task(made.folder / "tasks", harness, "plain", {})
    names = {"run_id": made.stack.config.run.id, "rollout_id": rollout, "group_id": group}
    await made.stack.bus.publish(RolloutStart(**names, group_size=2, task_dir=str(task), harness=harness))  # type: ignore[arg-type]


def outcomes(made: Stage, group: str) -> list[RolloutFinished]:
    """Of the rollouts that were carried out to the end."""
    return [m for m in made.heard() if isinstance(m, RolloutFinished) and m.group_id == group]


def first_prompts(made: Stage, group: str) -> dict[str, list[str]]:
    """By rollout: digests of the prompts that go on from no other call."""
    found: dict[str, list[str]] = defaultdict(list)
    for message in made.heard():
        if isinstance(message, CallRecorded) and message.rollout_id.startswith(group) and message.parent_seq is None:
            found[message.rollout_id].append(message.prompt_digest)
    return found
