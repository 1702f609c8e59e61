"""Splice mode: what was sampled is sent again as it was, and a conversation stays one chain whoever serves it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared.packing import unpack_ids
from tests.engine.script import Rule, Script
from tests.unit.proxy.test_proxy_calls import TOOLS, full_prompts
from tests.unit.proxy.world import MakeWorld, World, body

Json = dict[str, Any]


async def converse(world: World, urls: list[str], messages: list[Json], turns: int, **fields: Any) -> None:
    """A harness that re-serialises arguments, drops blanks, and puts one call to each of the URLs in turn."""
    for turn in range(turns):
        url = f"{urls[turn % len(urls)]}/v1/chat/completions"
        async with world.http.post(url, json=body(messages, tools=TOOLS, **fields)) as response:
            assert response.status == 200, await response.text()
            message = await _message(response, streamed=bool(fields.get("stream")))
        for call in message.get("tool_calls", ()):
            call["function"]["arguments"] = json.dumps(json.loads(call["function"]["arguments"]), indent=1)
        messages += [{**message, "content": (message["content"] or "").strip()}]
        messages += [{"role": "tool", "tool_call_id": c["id"], "content": "ok"} for c in message.get("tool_calls", ())]


async def _message(response: Any, *, streamed: bool) -> Json:
    if not streamed:
        return dict(json.loads(await response.read())["choices"][0]["message"])
    message: Json = {"role": "assistant", "content": ""}
    for line in (await response.read()).splitlines():
        if line.startswith(b"data: {") and (choices := json.loads(line[6:])["choices"]):
            message["content"] += choices[0]["delta"].get("content", "")
            message.setdefault("tool_calls", []).extend(choices[0]["delta"].get("tool_calls", ()))
    return message


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_conversation_is_one_chain_of_ids(make_world: MakeWorld, streamed: bool) -> None:
    world = await make_world(mode="splice")
    base = await world.open()
    await converse(world, [base], [{"role": "user", "content": "DO: ls\nDO: cat ä"}], 3, stream=streamed)
    assert [(r.parent_seq, r.spliced, r.fork, r.messages_from) for r in world.records] == [
        (None, False, "", None), (1, True, "", 1), (2, True, "", 2),
    ]  # fmt: skip
    prompts = full_prompts(world.records)
    for record, logged in zip(world.records, world.engine.finished, strict=True):
        assert (prompts[record.seq], unpack_ids(record.completion)) == (logged["prompt_token_ids"], logged["token_ids"])
        assert logged["streamed"]  # one of the engine's parsers reads all replies
    assert all(r.streamed is streamed for r in world.records)


async def test_proxies_in_turn_serve_one_conversation(make_world: MakeWorld) -> None:
    world = await make_world(mode="splice")
    other = world.another_proxy()
    await other.start()
    try:
        base = await world.open()
        urls = [base, base.replace(world.proxy.url, other.url)]
        await converse(world, urls, [{"role": "user", "content": "DO: a\nDO: b\nDO: c\nDO: d"}], 5)
        assert [(r.parent_seq, r.spliced) for r in world.records] == [(None, False), *((n, True) for n in range(1, 5))]
        assert [len(r.messages) for r in world.records] == [1, 1, 1, 1, 1]
        assert full_prompts(world.records)[5] == world.engine.finished[4]["prompt_token_ids"]
    finally:
        await other.stop()


async def test_history_that_was_rewritten_forks_and_says_so(make_world: MakeWorld) -> None:
    world = await make_world(mode="splice")
    base = await world.open()
    messages: list[Json] = [{"role": "user", "content": "DO: a\nDO: b"}]
    await converse(world, [base], messages, 2)
    messages[1]["content"] = "what the model never said"
    await converse(world, [base], messages, 1)
    await converse(world, [base], [{"role": "user", "content": "another one"}], 1)
    assert [(r.parent_seq, r.spliced, r.fork) for r in world.records[2:]] == [
        (None, False, "history_rewritten"), (None, False, "new_context"),
    ]  # fmt: skip


async def test_a_retry_goes_on_from_where_the_lost_call_did(make_world: MakeWorld) -> None:
    world = await make_world(mode="splice")
    base = await world.open()
    messages: list[Json] = [{"role": "user", "content": "DO: a\nDO: b"}]
    await converse(world, [base], messages, 1)
    world.engine.script = Script(rules=[Rule(calls=[2], drop_after=3)])
    status, _ = await world.chat(base, messages, tools=TOOLS)
    assert status == 502
    await converse(world, [base], messages, 1)
    assert [(r.seq, r.parent_seq, r.delivery, r.fork) for r in world.records] == [
        (1, None, "sent", ""), (2, 1, "cut", ""), (3, 1, "sent", ""),
    ]  # fmt: skip
    assert world.records[1].prompt_digest == world.records[2].prompt_digest


async def test_an_engine_that_takes_no_ids_is_recorded_from(make_world: MakeWorld) -> None:
    world = await make_world(mode="splice")
    base = await world.open()
    world.engine.script = Script(rules=[Rule(spoil="other_prompt")])
    messages: list[Json] = [{"role": "user", "content": "DO: a\nDO: b"}]
    await converse(world, [base], messages, 2)
    assert [(r.spliced, r.fork) for r in world.records] == [(False, ""), (False, "engine_takes_no_ids")]
    assert "kv_transfer_params" not in world.engine.requests[-1]


async def test_an_engine_that_ignores_the_ids_is_found_out(make_world: MakeWorld) -> None:
    world = await make_world(mode="splice")
    base = await world.open()
    messages: list[Json] = [{"role": "user", "content": "DO: a\nDO: b"}]
    await converse(world, [base], messages, 1)
    world.engine.script = Script(rules=[Rule(calls=[2], spoil="other_prompt")])
    status, answer = await world.chat(base, messages, tools=TOOLS)
    assert (status, answer["error"]["code"]) == (502, "bad_engine_answer")
    assert (await world.seal())["lost"] == [2]
