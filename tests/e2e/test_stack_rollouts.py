"""The loop up to completed groups on a scripted engine: real NATS, store, services, sandboxes, and kill -9."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path

from shared.events import (
    CallRecorded,
    GroupCompleted,
    GroupDiscarded,
    Message,
    RolloutStart,
    SessionSealed,
    TrajectoryAssembled,
    TrajectoryDiscarded,
)
from shared.packing import unpack_ids
from shared.subjects import tap_pattern
from tests.e2e.stacks import LiveStack, live_stack, openforge, write_config

GROUPS, SIZE = 6, 4


def write_task(folder: Path, name: str, command: str, wanted: str) -> Path:
    """A task whose instruction tells the scripted engine what to do, and whose verifier wants a file's content."""
    task = folder / name
    for sub in ("environment", "solution", "tests"):
        (task / sub).mkdir(parents=True)
    (task / "task.toml").write_text(f'schema_version = "1.4"\n[task]\nname = "test/{name}"\n[agent]\ntimeout_sec = 40\n')
    (task / "instruction.md").write_text(f"DO: {command}\n")
    (task / "environment" / "seed.txt").write_text("seed\n")
    (task / "solution" / "solve.sh").write_text(f"{command}\n")
    verdict = f'if [ "$(cat out.txt 2>/dev/null)" = "{wanted}" ]; then echo 1; else echo 0; fi'
    (task / "tests" / "test.sh").write_text(f'{{ {verdict}; }} > "${{LOGS_DIR:-/logs}}/verifier/reward.txt"\n')
    return task


async def watch(stack: LiveStack, seen: list[Message]) -> None:
    async for tapped in stack.bus.tap(tap_pattern("evt", stack.config.run.id)):
        if tapped.message is not None:
            seen.append(tapped.message)


async def start_groups(stack: LiveStack, task: Path) -> set[str]:
    run = stack.config.run.id
    groups = {f"{run}-t-g{g}" for g in range(GROUPS)}
    for group in sorted(groups):
        for r in range(SIZE):
            await stack.bus.publish(
                RolloutStart(
                    run_id=run, rollout_id=f"{group}-r{r}", group_id=group, group_size=SIZE, task_dir=str(task), harness="react"
                )
            )
    return groups


def closed(seen: list[Message]) -> Counter[str]:
    return Counter(m.group_id for m in seen if isinstance(m, GroupCompleted | GroupDiscarded))


async def test_one_rollout_from_the_command_line(tmp_path: Path) -> None:
    task = write_task(tmp_path, "write", "cat seed.txt > out.txt", "seed")
    code, out = await openforge("rollout", str(task), "--config", str(write_config(tmp_path)), "-n", "2")
    assert code == 0, out
    assert out.count("reward 1") == 2, out
    assert out.count("call 2:") == 2, out


async def test_attached_rollout_and_tap(tmp_path: Path) -> None:
    good = write_task(tmp_path, "write", "cat seed.txt > out.txt", "seed")
    async with live_stack(write_config(tmp_path)) as stack:
        seen: list[Message] = []
        tap = asyncio.create_task(watch(stack, seen))
        code, out = await openforge("rollout", str(good), "--root", stack.config.run.root)
        assert code == 0, out
        assert "reward 1" in out
        tap.cancel()
        assert [m.seq for m in seen if isinstance(m, CallRecorded)] == [1, 2]


async def test_killed_services_lose_and_double_nothing(tmp_path: Path) -> None:
    """Collector, proxy and orchestrator are killed with -9 while groups are under way."""
    task = write_task(tmp_path, "slow", "sleep 0.4; [ $$ -gt 0 ] && cat seed.txt > out.txt", "seed")
    async with live_stack(write_config(tmp_path, "[orchestrator]\nconcurrency = 6\n")) as stack:
        seen: list[Message] = []
        tap = asyncio.create_task(watch(stack, seen))
        groups = await start_groups(stack, task)
        for name, calls in (("collector", 6), ("proxy", 14), ("orchestrator", 22), ("collector", 28)):
            async with asyncio.timeout(60):
                while sum(isinstance(m, CallRecorded) for m in seen) < calls:
                    await asyncio.sleep(0.02)
            stack.service(name).kill()
        async with asyncio.timeout(90):
            while len(closed(seen)) < GROUPS:
                await asyncio.sleep(0.05)
        tap.cancel()
    check_everything(seen, groups, tmp_path / "engine.jsonl")


def check_everything(seen: list[Message], groups: set[str], engine_log: Path) -> None:
    assert closed(seen) == dict.fromkeys(groups, 1)
    # All rewards are 1, so every group is discarded for want of variance: what counts is that each was reached, once.
    assert {m.reason for m in seen if isinstance(m, GroupDiscarded)} == {"no_variance"}
    records = Counter(m.event_id for m in seen if isinstance(m, CallRecorded))
    assert set(records.values()) == {1}
    settled = Counter((m.rollout_id, m.attempt) for m in seen if isinstance(m, TrajectoryAssembled | TrajectoryDiscarded))
    sealed = {(m.rollout_id, m.attempt): m for m in seen if isinstance(m, SessionSealed)}
    assert set(settled) == set(sealed)
    sampled = sum(len(m.completion) // 4 for m in seen if isinstance(m, CallRecorded))
    counted = sum(m.tokens.sampled for m in seen if isinstance(m, GroupDiscarded))
    lost = sum(len(m.lost) for m in sealed.values())
    assert counted == sampled or lost
    finished = [json.loads(line) for line in engine_log.read_text().splitlines()]
    unrecorded = len(finished) - len(records)
    assert 0 <= unrecorded <= lost
    assert all(unpack_ids(m.completion) for m in seen if isinstance(m, CallRecorded))
