"""Constrained replies are scored once more without their constraint, before their call is settled."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from services.collector.assemble import assemble
from services.collector.calls import REPLAY_GAP
from shared.events import TokenCounts
from tests.engine.script import Rule, Script
from tests.unit.proxy.world import Json, MakeWorld, World, eventually

TOOL = {"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}
FORCED: Json = {"tools": [TOOL], "tool_choice": "required"}


async def record_one(world: World, **fields: Any) -> TokenCounts:
    """One call, and where the collector says its tokens go."""
    before = world.engine.generated
    assert (await world.chat(await world.open(), **fields))[0] == 200
    await world.seal()
    tokens = assemble(world.records, world.seals[0], max_row_tokens=1000).tokens
    assert tokens.sampled == world.engine.generated - before
    return tokens


@pytest.mark.parametrize("mode", ["record", "splice"])
async def test_a_constraint_that_made_no_difference_is_measured_and_the_reply_trained(make_world: MakeWorld, mode: str) -> None:
    world = await make_world(replay_constrained=True, mode=mode)
    tokens = await record_one(world, **FORCED)
    [record] = world.records
    assert record.constrained
    assert record.replay_gap is not None
    assert record.replay_gap <= 1e-6
    assert tokens.trained == len(record.completion) // 4
    assert (tokens.masked, tokens.reasons) == (0, {"replay": 1})


async def test_a_constraint_that_made_a_difference_masks_the_reply(make_world: MakeWorld) -> None:
    world = await make_world(replay_constrained=True)
    world.engine.script = Script(rules=[Rule(spoil="grammar")])
    tokens = await record_one(world, **FORCED)
    [record] = world.records
    assert record.replay_gap is not None
    assert record.replay_gap > REPLAY_GAP
    assert (tokens.trained, tokens.reasons) == (0, {"constrained": len(record.completion) // 4, "replay": 1})


@pytest.mark.parametrize(("replay", "fields"), [(False, FORCED), (True, {})], ids=["not asked for", "not constrained"])
async def test_what_need_not_be_scored_is_not(make_world: MakeWorld, replay: bool, fields: Json) -> None:
    world = await make_world(replay_constrained=replay)
    tokens = await record_one(world, **fields)
    assert world.records[0].replay_gap is None
    assert tokens.trained == (0 if fields else tokens.sampled)


async def test_an_engine_that_cannot_score_leaves_the_reply_masked(make_world: MakeWorld) -> None:
    world = await make_world(replay_constrained=True)
    world.engine.scores = False
    tokens = await record_one(world, **FORCED)
    assert world.records[0].replay_gap is None
    assert list(tokens.reasons) == ["constrained"]


async def test_no_weights_are_loaded_between_a_reply_and_its_replay(make_world: MakeWorld) -> None:
    world = await make_world(replay_constrained=True)
    world.engine.may_score.clear()
    call = asyncio.create_task(world.chat(await world.open(), **FORCED))
    await eventually(lambda: len(world.engine.finished) == 1)
    await world.close()
    assert await world.sessions.replicas.in_flight() == 1
    assert not world.records
    world.engine.may_score.set()
    assert (await call)[0] == 200

    async def is_settled() -> bool:
        return await world.sessions.replicas.in_flight() == 0

    await eventually(is_settled)
    assert world.records[0].replay_gap is not None
