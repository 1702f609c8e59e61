"""The proxy in front of a real vLLM."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest

from services.collector.calls import REPLAY_GAP
from services.proxy.known import ids_json
from services.proxy.upstream import Engine
from shared.events import CallRecorded
from shared.packing import unpack_floats, unpack_ids
from tests.unit.proxy.world import MakeWorld, World, body, eventually

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(600)]


async def generated(url: str) -> int:
    """`vllm:generation_tokens_total`."""
    async with aiohttp.ClientSession() as http, http.get(f"{url}/metrics") as response:
        lines = (await response.text()).splitlines()
    return int(sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("vllm:generation_tokens_total")))


async def call(world: World, base: str, **fields: Any) -> None:
    async with world.http.post(f"{base}/v1/chat/completions", json=body("hi", **fields)) as response:
        assert response.status == 200, await response.text()
        await response.read()


async def test_records_hold_every_token_that_the_engine_counted(make_world: MakeWorld, vllm_engine: str) -> None:
    world = await make_world(engine_url=vllm_engine)
    base = await world.open(max_tokens=20, seed=1)
    await call(world, base)  # warms the engine up
    before = await generated(vllm_engine)
    await asyncio.gather(*(call(world, base, stream=n % 2 == 1) for n in range(10)))
    records = world.records[1:]
    assert await generated(vllm_engine) - before == sum(len(unpack_ids(r.completion)) for r in records)
    assert all(len(unpack_floats(r.logprobs)) == len(unpack_ids(r.completion)) for r in records)
    assert len({r.completion for r in records}) == 10  # every call drew with a seed of its own
    assert await world.seal() == {"calls": 11, "errored": [], "cut": [], "lost": []}


async def test_a_cut_stream_is_recorded_and_the_engine_stops(make_world: MakeWorld, vllm_engine: str) -> None:
    world = await make_world(engine_url=vllm_engine)
    base = await world.open()
    await call(world, base, max_tokens=2)
    before = await generated(vllm_engine)
    async with world.stream(base, max_tokens=400) as response:
        for _ in range(9):
            await response.content.readline()
        response.close()
    await eventually(lambda: len(world.records) == 2, within_s=30)
    cut = world.records[1]
    assert cut.delivery in ("cut", "sent")  # a random model may stop on its own
    assert 0 < len(unpack_ids(cut.completion)) <= await generated(vllm_engine) - before


async def test_a_forced_tool_is_scored_again_without_its_grammar(make_world: MakeWorld, vllm_engine: str) -> None:
    world = await make_world(engine_url=vllm_engine, replay_constrained=True)
    base = await world.open(max_tokens=24, seed=1)
    await call(world, base)
    before = await generated(vllm_engine)
    tool = {"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {}}}}
    await call(world, base, stream=True, tools=[tool], tool_choice="required")
    free, forced = world.records
    assert (free.replay_gap, forced.constrained) == (None, True)
    assert forced.replay_gap is not None
    assert forced.replay_gap > REPLAY_GAP  # a random model would not have said it
    assert await generated(vllm_engine) - before == len(unpack_ids(forced.completion)) + 1
    scored = await score(vllm_engine, free)
    assert scored == pytest.approx(unpack_floats(free.logprobs), abs=1e-4)  # what no grammar took part in agrees


async def score(url: str, record: CallRecorded) -> list[float]:
    """The log-probs of a root's completion, as the proxy asks for them."""
    engine = Engine(url, "policy", 60.0)
    try:
        prompt = b"[" + ids_json(record.prompt_delta) + b"]"
        return await engine.log_probs(prompt, unpack_ids(record.completion))
    finally:
        await engine.stop()
