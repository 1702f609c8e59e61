"""What a proxy that starts anew makes of the records of others: it goes on as if it had served the rollout all along."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.engine.script import Rule, Script
from tests.unit.proxy.test_proxy_calls import TOOLS
from tests.unit.proxy.test_proxy_splice import converse
from tests.unit.proxy.world import MakeWorld, World

Json = dict[str, Any]
FIRST: Json = {"role": "user", "content": "DO: a\nDO: b"}


@asynccontextmanager
async def successor(world: World, base: str) -> AsyncIterator[str]:
    """The session's URL at a proxy that has served nothing yet; the other one is gone."""
    await world.proxy.stop()
    proxy = world.another_proxy()
    await proxy.start()
    yield base.replace(world.proxy.url, proxy.url)
    await proxy.stop()


@pytest.mark.parametrize(
    ("asked", "parent", "fork"),
    [
        ("the first prompt again", None, ""), ("the second prompt again", 1, ""), ("what follows", 2, ""),
        ("something new", None, "new_context"), ("a changed history", None, "history_rewritten"),
    ],
)  # fmt: skip
async def test_a_new_proxy_tells_retries_from_forks(make_world: MakeWorld, asked: str, parent: int | None, fork: str) -> None:
    world = await make_world(mode="splice")
    base = await world.open()
    messages = [dict(FIRST)]
    await converse(world, [base], messages, 2)
    match asked:
        case "the first prompt again":
            messages = messages[:1]
        case "the second prompt again":
            messages = messages[:3]
        case "something new":
            messages = [{"role": "user", "content": "another one"}]
        case "a changed history":
            messages = [*messages[:1], {"role": "assistant", "content": "never said"}, {"role": "user", "content": "so?"}]
    async with successor(world, base) as url:
        await converse(world, [url], messages, 1)
    last = world.records[-1]
    assert (last.seq, last.messages_from, last.fork, last.parent_status) == (3, parent, fork, "extends" if parent else "root")
    assert last.parent_seq == parent


async def test_a_new_proxy_tells_changed_tools(make_world: MakeWorld) -> None:
    world = await make_world(mode="splice")
    base = await world.open()
    messages = [dict(FIRST)]
    await converse(world, [base], messages, 1)
    async with successor(world, base) as url:
        assert (await world.chat(url, messages, tools=[*TOOLS, *TOOLS]))[0] == 200
    assert world.records[-1].fork == "tools_changed"


async def test_a_new_proxy_knows_the_stop_tokens_of_the_others(make_world: MakeWorld) -> None:
    world = await make_world(mode="splice")
    base = await world.open()
    messages = [dict(FIRST)]
    await converse(world, [base], messages, 1)
    world.engine.script = Script(rules=[Rule(calls=[2], text="an answer that is cut short")])
    await converse(world, [base], messages, 1, max_tokens=5)
    async with successor(world, base) as url:
        await converse(world, [url], [*messages, {"role": "user", "content": "go on"}], 1)
    assert [(r.finish_reason, r.parent_seq, r.spliced, r.fork) for r in world.records[1:]] == [
        ("length", 1, True, ""), ("stop", 2, True, ""),
    ]  # fmt: skip
