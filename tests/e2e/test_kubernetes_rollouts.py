"""Rollouts in pods of a real node, all real but the model: the clock that they see, and verifiers in pods of their own."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from services.dev.servers import free_port
from services.orchestrator.backends.kubernetes.podnames import SESSION
from shared.events import Message, RolloutFailed, RolloutFinished, RolloutStart
from tests.contract.conftest import cluster, docker_engine, node_with_images, real_node
from tests.contract.docker_kit import IMAGE
from tests.e2e.pods import Pods, api_of
from tests.e2e.stacks import LiveStack, live_stack, write_config
from tests.e2e.test_stack_rollouts import watch, write_task
from tests.kube.cluster import Cluster
from tests.kube.images import CHECKS, checks_image
from tests.kube.kit import HARNESS
from tests.unit.dev.sets import put
from tests.waiting import eventually, until

pytestmark = [pytest.mark.fleet, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(600)]

__all__ = ["cluster", "docker_engine", "node_with_images", "real_node"]

SETTINGS = """
[proxy]
host = "0.0.0.0"
port = {port}
[orchestrator]
backend = "kubernetes"
clock = "2024-02-29T12:00:00Z"
[orchestrator.resources]
cpus = 0.2
memory_mb = 256
[orchestrator.kubernetes]
kubeconfig = "{kubeconfig}"
namespace = "{namespace}"
proxy_url = "http://{gateway}:{port}"
image = "{image}"
harness_image = "{harness}"
pull_policy = "Never"
"""
APART = """schema_version = "1.4"
artifacts = ["/app/out.txt", {{ source = "/app/results", exclude = ["*.tmp"] }}, "/tmp/none"]
[task]
name = "test/{name}"
[verifier]
environment_mode = "separate"
"""
LEAVE = (
    "echo hello > out.txt; mkdir results; echo a > results/a.txt; echo b > results/b.tmp; echo x > trap.sh; "
    "chmod 000 results/a.txt; echo changed > seed.txt; echo note > /logs/artifacts/note"
)
SEE = """#!/bin/sh
{wait}
echo "$(id -u) $(pwd) $(echo *)"
cd /app
[ "$(cat out.txt)" = hello ] && [ "$(cat results/a.txt)" = a ] && [ ! -e results/b.tmp ] && [ ! -e trap.sh ] &&
  [ "$(cat seed.txt)" = "{seed}" ] && [ "$(cat /logs/artifacts/note)" = note ] && r=1 || r=0
echo $r > /logs/verifier/reward.txt
"""


def apart(folder: Path, name: str, more: str = "", wait: str = "") -> Path:
    """A task whose verifier has a pod of its own."""
    task = write_task(folder, name, LEAVE, "")
    (task / "task.toml").write_text(APART.format(name=name) + more)
    (task / "tests" / "test.sh").write_text(SEE.format(wait=wait, seed="seed"))
    return task


def in_steps(folder: Path) -> Path:
    """A task whose second step goes on with what the first one left, and sees none of its tests."""
    test = '[ "$(cat *.made)" = "$(cat /tests/wanted)" ] && r=1 || r=0; echo $r > /logs/verifier/reward.txt\n'
    return put(folder / "steps", {
        "task.toml": '[task]\nname = "test/steps"\n[[steps]]\nname = "first"\n[[steps]]\nname = "second"\n',
        "tests/test.sh": test, "steps/first/tests/wanted": "one\n", "steps/second/tests/wanted": "one\ntwo\n",
        "steps/first/instruction.md": "DO: echo one > 1.made\n",
        "steps/second/instruction.md": 'DO: [ -z "$(ls /tests)" ] && echo two > 2.made\n',
    })  # fmt: skip


@asynccontextmanager
async def stack_of(folder: Path, node: Cluster, *tasks: Path) -> AsyncIterator[tuple[LiveStack, Pods, list[Message]]]:
    """A stack over the node that was asked for one rollout of each task, its pods, and what its bus tells."""
    namespace, seen = f"rollouts-{secrets.token_hex(4)}", list[Message]()
    places = {"port": free_port(), "kubeconfig": node.kubeconfig, "gateway": node.gateway}
    lines = SETTINGS.format(namespace=namespace, image=IMAGE, harness=HARNESS, **places)
    async with await api_of(node) as api:
        pods = Pods(api, namespace)
        await pods.make()
        async with live_stack(write_config(folder, lines)) as stack:
            watching, run = asyncio.create_task(watch(stack, seen)), stack.config.run.id
            for task in tasks:
                names = {"rollout_id": f"{run}-{task.name}", "group_id": f"{run}-{task.name}", "group_size": 1}
                await stack.bus.publish(RolloutStart(run_id=run, task_dir=str(task), harness="react", **names))  # type: ignore[arg-type]
            yield stack, pods, seen
            watching.cancel()


def outcomes(seen: list[Message]) -> dict[str, object]:
    """Rewards by task; what failed as it is."""
    ended = [m for m in seen if isinstance(m, RolloutFinished | RolloutFailed)]
    return {m.task.removeprefix("test/"): m.reward if isinstance(m, RolloutFinished) else m for m in ended}


async def test_pods_show_the_clock_of_the_run_carry_steps_out_and_hand_what_an_agent_left_to_verifiers_in_their_own(
    tmp_path: Path, node_with_images: Cluster
) -> None:
    checks_image(tmp_path / "checks.tar", tmp_path, SEE.format(wait="", seed="own"))
    node_with_images.load(tmp_path / "checks.tar")
    clock = write_task(tmp_path, "clock", "date -u +%F > out.txt", "2024-02-29")
    test = clock / "tests/test.sh"
    test.write_text(f'[ "$(date -u +%F)" = 2024-02-29 ] || exit 1\n{test.read_text()}')
    own = f'[verifier.environment]\ndocker_image = "{CHECKS}"\nworkdir = "/app"\n'
    tasks = clock, apart(tmp_path, "fresh"), apart(tmp_path, "own", own), in_steps(tmp_path)
    async with stack_of(tmp_path, node_with_images, *tasks) as (stack, pods, seen):
        await until(lambda: len(outcomes(seen)) == 4, 400.0)
        said = {file.parent.name: file.read_text() for file in stack.folder.glob("rollouts/*/sandbox-verify.log")}
        assert outcomes(seen) == {"clock": 1.0, "fresh": 1.0, "own": 1.0, "steps": 1.0}, said

        async def cleared() -> bool:
            return await pods.all() == []

        await eventually(cleared, 60.0)
    assert not list(stack.folder.glob("rollouts/*/handover"))


async def test_a_verifiers_pod_is_adopted_by_the_successor_of_a_killed_orchestrator(
    tmp_path: Path, node_with_images: Cluster
) -> None:
    made: set[tuple[str, str]] = set()
    async with stack_of(tmp_path, node_with_images, apart(tmp_path, "slow", wait="sleep 12")) as (stack, pods, seen):

        async def verifies() -> bool:
            there = {pod.metadata.annotations[SESSION]: pod for pod in await pods.all()}
            made.update((name, pod.metadata.uid) for name, pod in there.items())
            return any(name.endswith("-verify") and pod.status.phase == "Running" for name, pod in there.items())

        async def over() -> bool:
            await verifies()
            return bool(outcomes(seen))

        await eventually(verifies, 200.0)
        stack.service("orchestrator").kill()
        await eventually(over, 200.0)
        assert outcomes(seen) == {"slow": 1.0}
    assert len(made) == len({name for name, _ in made}) == 2, "one pod for the agent, one for its verifier"
