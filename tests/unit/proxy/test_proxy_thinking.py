"""Earlier thinking in spliced prompts: several reasoning parsers take what follows it for text."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.engine import real_tokenizer
from tests.engine.real import RealEngine
from tests.engine.real_prompt import Prompt, Say
from tests.engine.scripted import ScriptedEngine
from tests.unit.proxy.test_proxy_calls import full_prompts
from tests.unit.proxy.world import World, living_world

Json = dict[str, Any]


class Thinker:
    """Thinks before every answer, but not before the first of `silent` ones."""

    def __init__(self, silent: int) -> None:
        self._silent = silent

    def say(self, prompt: Prompt) -> Say:
        """See `Model.say`."""
        answers = sum(turn.role == "assistant" for turn in prompt.turns)
        return Say("Yes." if answers < self._silent else "<think>\nHm.\n</think>\n\nYes.")


@pytest.fixture(scope="module", autouse=True)
def trained() -> None:
    """Making the tokenizer takes longer than a test may."""
    real_tokenizer.tokenizer()


@asynccontextmanager
async def talked(turns: int, *, misreads: bool, silent: int = 0) -> AsyncIterator[tuple[World, RealEngine, list[Json]]]:
    """What is left of a conversation, and the model's messages in it."""
    engine = RealEngine(Thinker(silent), misreads=misreads)
    await engine.start()
    async with living_world(ScriptedEngine(), engine.url, mode="splice") as world:
        base, messages = await world.open(), list[Json]()
        for turn in range(turns):
            messages.append({"role": "user", "content": f"Is it {turn}?"})
            status, answer = await world.chat(base, messages)
            assert status == 200
            messages.append(answer["choices"][0]["message"])
        yield world, engine, messages[1::2]
    await engine.stop()


def forced(engine: RealEngine) -> int:
    return sum(call["note"] == "forced" for call in engine.calls)


async def test_thinking_stays_in_the_prompt_where_new_thinking_is_told_from_the_answer() -> None:
    async with talked(4, misreads=False) as (world, engine, said):
        assert [record.spliced for record in world.records] == [False, True, True, True]
        assert forced(engine) == 1
        assert [(m["reasoning"].strip(), m["content"].strip()) for m in said] == [("Hm.", "Yes.")] * 4
        thought = real_tokenizer.token("</think>")
        assert full_prompts(world.records)[4].count(thought) == 3


async def test_where_it_is_not_such_calls_are_recorded_and_the_harness_sees_what_it_should() -> None:
    async with talked(4, misreads=True) as (world, engine, said):
        assert [(record.spliced, record.fork) for record in world.records] == [
            (False, ""), *[(False, "thinking_misread")] * 3,
        ]  # fmt: skip
        assert forced(engine) == 1
        assert [(m["reasoning"].strip(), m["content"].strip()) for m in said] == [("Hm.", "Yes.")] * 4


async def test_a_model_that_does_not_think_is_not_probed() -> None:
    async with talked(3, misreads=True, silent=2) as (world, engine, _):
        assert [record.spliced for record in world.records] == [False, True, True]
        assert forced(engine) == 0
