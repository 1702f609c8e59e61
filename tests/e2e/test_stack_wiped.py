"""The store of a running stack is wiped while groups are under way: each closes exactly once, what was lost is tried again."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import aiohttp

from services.app import open_store
from shared.events import CallRecorded, GroupCompleted, Message, RolloutFailed, RolloutFinished, WeightsLoaded, WeightsPublished
from shared.ids import session_id
from shared.keys import OPERATOR
from tests.e2e.stacks import LiveStack, live_stack, write_config
from tests.e2e.test_stack_rollouts import GROUPS, SIZE, closed, start_groups, stored_messages, watch, write_task
from tests.waiting import until

SETTINGS = '[orchestrator]\nconcurrency = 6\nreward = "coin"\n[collector]\nmin_group = 1\n'
VERSION = 3


async def test_every_group_of_a_wiped_store_closes_once(tmp_path: Path) -> None:
    task = write_task(tmp_path, "slow", "sleep 0.4; cat seed.txt > out.txt", "seed")
    async with live_stack(write_config(tmp_path, SETTINGS)) as stack:
        seen: list[Message] = []
        tap = asyncio.create_task(watch(stack, seen))
        await serve_version(stack, VERSION)
        groups = await start_groups(stack, task)
        for calls in (14, 30):
            await until(lambda calls=calls: calls <= sum(isinstance(m, CallRecorded) for m in seen), 60)  # type: ignore[misc]
            await wipe(stack)
        await until(lambda: closed(seen) == groups, 90)
        stored = await stored_messages(stack)
        tap.cancel()
    assert stored["FORGE-GROUPS"] == GROUPS
    check_retries(seen)
    check_versions(seen)


async def serve_version(stack: LiveStack, version: int) -> None:
    """What a trainer would have done to the engine, and said of the weights that it serves."""
    async with aiohttp.ClientSession(stack.config.engine.url) as http:
        (await http.post("/update_weight_version", json={"new_version": str(version)})).raise_for_status()
    await stack.bus.publish(WeightsPublished(run_id=stack.config.run.id, version=version))
    await stack.bus.publish(WeightsLoaded(run_id=stack.config.run.id, version=version))
    await wipe(stack)


async def wipe(stack: LiveStack) -> None:
    store = open_store(stack.config, OPERATOR)
    await store.flushall()
    await store.aclose()


def check_retries(seen: list[Message]) -> None:
    """Attempts whose session was wiped failed with a reason, and their rollouts ended well in a later one."""
    failed = [m for m in seen if isinstance(m, RolloutFailed)]
    assert failed, "the wipe met no attempt"
    assert {m.reason for m in failed} <= {"FidelityError", "StoreWiped"}
    ends = Counter(m.rollout_id for m in {m.event_id: m for m in seen if isinstance(m, RolloutFinished)}.values())
    assert len(ends) == GROUPS * SIZE
    assert set(ends.values()) == {1}


def check_versions(seen: list[Message]) -> None:
    """Whatever trains was sampled under the version that is served, and not under a version 0 that nobody serves."""
    voting = {session_id(t.rollout_id, t.attempt) for m in seen if isinstance(m, GroupCompleted) for t in m.trajectories}
    assert {m.weight_version_start for m in seen if isinstance(m, CallRecorded) and m.session_id in voting} <= {VERSION}
