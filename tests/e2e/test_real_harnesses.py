"""Coding agents, unmodified, on a real vLLM: what is assembled of their calls is what the engine saw and sampled."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from services.collector.assemble import assemble
from services.orchestrator.harnesses import Request, harness
from shared.errors import HarnessError
from shared.events import (
    CallRecorded,
    Message,
    RolloutFailed,
    RolloutFinished,
    RolloutStart,
    RolloutTimedOut,
    Row,
    SessionSealed,
)
from shared.packing import unpack_floats, unpack_ids
from shared.subjects import tap_pattern
from tests.e2e.stacks import TASKS, LiveStack, live_stack
from tests.engine.long_model import MAX_LENGTH, make_long_model
from tests.waiting import eventually

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.harness, pytest.mark.timeout(900)]

GAP = 1e-3


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that says nonsense, with room for an agent's prompts."""
    return make_long_model(tmp_path_factory.mktemp("long-model"))


@pytest.fixture
async def stack(model: Path, tmp_path: Path) -> AsyncIterator[LiveStack]:
    """A stack with real vLLM in splice mode."""
    config = tmp_path / "openforge.toml"
    config.write_text(
        f"""
[run]
root = "{tmp_path}/runs"
[engine]
model = "{model}"
max_model_len = {MAX_LENGTH}
kv_cache_mb = 256
start_timeout_s = 400
max_num_seqs = 8
[proxy]
mode = "splice"
[orchestrator]
attempts = 1
timeout_s = 400
[trainer]
eval_episodes = 0
"""
    )
    async with live_stack(config) as live:
        yield live


def need(name: str) -> None:
    """Skips where a program is not installed; with CI=true that is a failure."""
    try:
        harness(name).launch(Request("http://127.0.0.1", "key", "policy", 32768, "hi", "/home/agent", "/logs", "/app"))
    except HarnessError as e:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(str(e))


async def until_ended(stack: LiveStack, rollout: str) -> Message:
    """The message that ends a rollout."""
    async for tapped in stack.bus.tap(tap_pattern("evt.rollout", stack.config.run.id)):
        message = tapped.message
        if isinstance(message, RolloutFinished | RolloutTimedOut | RolloutFailed) and message.rollout_id == rollout:
            return message
    raise AssertionError("the tap ended")


async def replayed(engine: str, row: Row) -> list[float]:
    """Log-probs that the engine gives to a row's tokens after the first."""
    ids = unpack_ids(row.ids)
    body = {"model": "policy", "prompt": ids, "max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 0}
    async with aiohttp.ClientSession() as http, http.post(f"{engine}/v1/completions", json=body) as response:
        assert response.status == 200, await response.text()
        [choice] = (await response.json())["choices"]
    scored: list[dict[str, Any]] = choice["prompt_logprobs"][1:]
    return [by_id[str(token)]["logprob"] for token, by_id in zip(ids[1:], scored, strict=True)]


@pytest.mark.parametrize("name", ["claude", "codex"])
async def test_an_agents_rollout_is_recorded_assembled_and_replayed(name: str, stack: LiveStack) -> None:
    need(name)
    ended = asyncio.create_task(until_ended(stack, f"{name}-r"))
    await asyncio.sleep(0)
    task = next((TASKS / "train").iterdir())
    start = RolloutStart(
        run_id=stack.config.run.id, rollout_id=f"{name}-r", group_id=f"{name}-g", group_size=1, task_dir=str(task),
        harness=name, sampling={"seed": 1, "max_tokens": 48}, timeout_s=400.0,
    )  # fmt: skip
    await eventually(lambda: _healthy(stack.config.engine.url), stack.config.engine.start_timeout_s)
    await stack.bus.publish(start)
    outcome = await asyncio.wait_for(ended, 600)
    assert isinstance(outcome, RolloutFinished), outcome
    records, sealed = await recorded(stack, f"{name}-r")
    assert len(records) == sealed.calls - len(sealed.errored) >= 1
    assembled = assemble(records, sealed, max_row_tokens=MAX_LENGTH)
    assert assembled.tokens.trained > 0
    for row in assembled.rows:
        again, mask = await replayed(stack.config.engine.url, row), row.response_mask[1:]
        gaps = [abs(a - b) for a, b, m in zip(again, unpack_floats(row.logprobs)[1:], mask, strict=True) if m]
        assert max(gaps) < GAP


async def recorded(stack: LiveStack, rollout: str) -> tuple[list[CallRecorded], SessionSealed]:
    """The records of a rollout, and the sealing of its session."""
    run = stack.config.run.id
    records = [m async for _, m in stack.bus.replay(CallRecorded, run, rollout, 0) if isinstance(m, CallRecorded)]
    [sealed] = [m async for _, m in stack.bus.replay(SessionSealed, run, rollout, 0) if isinstance(m, SessionSealed)]
    return records, sealed


async def _healthy(url: str) -> bool:
    try:
        async with aiohttp.ClientSession() as http, http.get(f"{url}/health") as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False
