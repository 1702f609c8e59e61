"""The loop up to completed groups on a scripted engine: real NATS, store, services, sandboxes, and kill -9."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import nats
import openai
import pytest

from services.orchestrator.harnesses.installed import cache_folder, is_installed
from services.proxy.sessions import secret_of
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
from shared.subjects import tap_pattern
from tests.e2e.stacks import LiveStack, check_secret, live_stack, openforge, write_config
from tests.e2e.traced import by_trace, check_whole, linked, spans_in
from tests.waiting import until

GROUPS, SIZE = 6, 4


def write_task(folder: Path, name: str, command: str, wanted: str) -> Path:
    """A task whose instruction tells the scripted engine what to do, and whose verifier wants a file's content."""
    task = folder / name
    for sub in ("environment", "solution", "tests"):
        (task / sub).mkdir(parents=True)
    (task / "task.toml").write_text(f'schema_version = "1.4"\n[task]\nname = "test/{name}"\n[agent]\ntimeout_sec = 40\n')
    (task / "instruction.md").write_text(f"Do this:\nDO: {command}\n")
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


def closed(seen: list[Message]) -> set[str]:
    return {m.group_id for m in seen if isinstance(m, GroupCompleted | GroupDiscarded)}


async def stored_messages(stack: LiveStack) -> dict[str, int]:
    """Messages that each stream ever took. A tap sees what was published twice; the stream keeps it once."""
    client = await nats.connect(stack.config.bus.url, nkeys_seed=f"{stack.config.bus.keys}/operator.nk")
    try:
        return {s.config.name or "": s.state.last_seq for s in await client.jetstream().streams_info()}
    finally:
        await client.close()


async def test_two_rollouts_from_the_command_line_and_their_traces(tmp_path: Path) -> None:
    task = write_task(tmp_path, "write", "cat seed.txt > out.txt", "seed")
    config = write_config(tmp_path, "[traces]\nto = 'file'")
    code, out = await openforge("rollout", str(task), "--config", str(config), "-n", "2")
    assert code == 0, out
    assert out.count("reward 1") == 2, out
    assert out.count("call 2:") == 2, out
    check_traces(next((tmp_path / "runs").glob("*/traces")), rollouts=2, calls=2)


def check_traces(folder: Path, rollouts: int, calls: int) -> None:
    """The traces of one group: each rollout's leads to it, and it to each rollout's."""
    spans = spans_in(folder)
    [group] = [s for s in spans if s["name"] == "group test/write"]
    roots = [s for s in spans if s["name"] == "rollout test/write"]
    assert len(roots) == rollouts
    for root in roots:
        check_whole(by_trace(spans)[root["traceId"]], calls)
        assert linked(root, spans) == [group]
    assert {attempt["traceId"] for attempt in linked(group, spans)} == {root["traceId"] for root in roots}


async def test_the_unmodified_mini_swe_agent_completes_a_rollout(tmp_path: Path) -> None:
    if not is_installed(cache_folder() / "mini-2.4.6"):
        reason = "mini-swe-agent is not installed: openforge harness install mini"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    task = write_task(tmp_path, "write", "cat seed.txt > out.txt", "seed")
    with (task / "instruction.md").open("a") as instruction:
        instruction.write("DO: echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n")
    code, out = await openforge(
        "rollout", str(task), "--harness", "mini", "--config", str(write_config(tmp_path)), timeout_s=110
    )
    assert code == 0, out
    assert "reward 1" in out, out
    assert "call 1:" in out, out


async def test_attached_rollout_and_tap(tmp_path: Path) -> None:
    good = write_task(tmp_path, "write", "cat seed.txt > out.txt", "seed")
    async with live_stack(write_config(tmp_path)) as stack:
        seen: list[Message] = []
        tap = asyncio.create_task(watch(stack, seen))
        code, out = await openforge("rollout", str(good), "--root", stack.config.run.root)
        assert code == 0, out
        assert "reward 1" in out
        tap.cancel()
        calls = [m for m in seen if isinstance(m, CallRecorded)]
        assert [m.seq for m in calls] == [1, 2]
        session, key = calls[0].session_id, stack.running.env[stack.config.proxy.control_key_env]
        await check_secret(stack, session, secret_of(key, stack.config.run.id, session))


async def test_a_harness_of_ones_own_runner_is_recorded_and_scored(tmp_path: Path) -> None:
    async with live_stack(write_config(tmp_path)) as stack:
        seen: list[Message] = []
        tap = asyncio.create_task(watch(stack, seen))
        root = ("--root", stack.config.run.root)
        code, out = await openforge("session", "create", "--task", "fix", "--harness", "mine", *root)
        assert code == 0, out
        env = dict(line.removeprefix("export ").split("=", 1) for line in out.splitlines())
        client = openai.AsyncOpenAI(base_url=env["OPENAI_BASE_URL"], api_key=env["OPENAI_API_KEY"])
        await client.chat.completions.create(model="any", messages=[{"role": "user", "content": "hi"}])
        await client.close()
        assert await openforge("session", "reward", env["OPENFORGE_SESSION"], "-0.5", *root) == (
            0, f"{env['OPENFORGE_SESSION']}: reward -0.5\n",
        )  # fmt: skip
        code, out = await openforge("session", "end", env["OPENFORGE_SESSION"], *root)
        assert (code, out) == (0, f"{env['OPENFORGE_SESSION']}: reward -0.5, calls 1\n")
        await until(lambda: bool(closed(seen)), 20)
        code, out = await openforge("session", "reward", env["OPENFORGE_SESSION"], "1", *root)
        assert code == 2, out
        assert "has ended" in out
        tap.cancel()
        await check_secret(stack, env["OPENFORGE_SESSION"], env["OPENAI_API_KEY"])
    [group] = [m for m in seen if isinstance(m, GroupCompleted)]
    assert [(t.task, t.harness, t.reward, t.calls) for t in group.trajectories] == [("fix", "mine", -0.5, 1)]


async def test_killed_services_lose_and_double_nothing(tmp_path: Path) -> None:
    """Collector, proxy and orchestrator are killed with -9 while groups are under way."""
    task = write_task(tmp_path, "slow", "sleep 0.4; cat seed.txt > out.txt", "seed")
    async with live_stack(write_config(tmp_path, "[orchestrator]\nconcurrency = 6\n")) as stack:
        seen: list[Message] = []
        tap = asyncio.create_task(watch(stack, seen))
        groups = await start_groups(stack, task)
        for name, calls in (("collector", 6), ("proxy", 14), ("orchestrator", 22), ("collector", 28)):
            await until(lambda calls=calls: calls <= sum(isinstance(m, CallRecorded) for m in seen), 60)  # type: ignore[misc]
            stack.service(name).kill()
        await until(lambda: closed(seen) == groups, 90)
        stored = await stored_messages(stack)
        tap.cancel()
    assert stored["FORGE-GROUPS"] == GROUPS
    assert stored["FORGE-CALLS"] == len({m.event_id for m in seen if isinstance(m, CallRecorded)})
    check_everything(seen, tmp_path / "engine.jsonl")


def check_everything(seen: list[Message], engine_log: Path) -> None:
    """What groups, sealings and the engine's own log say of the same calls agrees."""
    records = {m.event_id: m for m in seen if isinstance(m, CallRecorded)}
    sealed = {(m.rollout_id, m.attempt): m for m in seen if isinstance(m, SessionSealed)}
    settled = {(m.rollout_id, m.attempt) for m in seen if isinstance(m, TrajectoryAssembled | TrajectoryDiscarded)}
    assert settled == set(sealed)
    # All rewards are 1, so every group is discarded for want of variance: what counts is that each was reached, once.
    groups = {m.group_id: m for m in seen if isinstance(m, GroupDiscarded)}
    assert {m.reason for m in groups.values()} == {"no_variance"}
    lost = sum(len(m.lost) for m in sealed.values())
    sampled = sum(len(m.completion) // 4 for m in records.values())
    assert sum(m.tokens.sampled for m in groups.values()) <= sampled
    assert sum(m.tokens.sampled for m in groups.values()) == sampled or lost
    finished = [line for line in engine_log.read_text().splitlines() if json.loads(line)["finish_reason"] != "abort"]
    assert 0 <= len(finished) - len(records) <= lost
