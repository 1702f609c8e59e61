"""Calls that go well: what the harness gets is the engine's, what is recorded is exact."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from shared.events import CallRecorded
from shared.packing import digest_packed, pack_ids, unpack_floats, unpack_ids
from tests.engine import bytes_tokenizer as tokenizer
from tests.engine.script import Call, Rule, Script
from tests.unit.proxy.world import World, body

TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}]


def full_prompts(records: list[CallRecorded]) -> dict[int, list[int]]:
    """Prompts put together again from deltas, by call number."""
    fulls: dict[int, list[int]] = {}
    prompts: dict[int, list[int]] = {}
    for record in sorted(records, key=lambda r: r.seq):
        parent = fulls[record.parent_seq][: record.parent_len] if record.parent_seq else []
        prompts[record.seq] = parent + unpack_ids(record.prompt_delta)
        fulls[record.seq] = prompts[record.seq] + unpack_ids(record.completion)
    return prompts


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_conversation_is_recorded_token_for_token(world: World, streamed: bool) -> None:
    base = await world.open(temperature=0.5, seed=4)
    messages: list[dict[str, Any]] = [{"role": "user", "content": "DO: ls\nDO: cat ä"}]
    for _ in range(3):
        async with world.http.post(
            f"{base}/v1/chat/completions", json=body(messages, tools=TOOLS, stream=streamed)
        ) as response:
            assert response.status == 200
            await response.read()
        messages.append(world.records[-1].reply)
        messages += [{"role": "tool", "tool_call_id": c["id"], "content": "ok"} for c in messages[-1].get("tool_calls", ())]
    for record, logged in zip(world.records, world.engine.finished, strict=True):
        prompt = full_prompts(world.records)[record.seq]
        assert prompt == logged["prompt_token_ids"]
        assert unpack_ids(record.completion) == logged["token_ids"]
        expected = [tokenizer.logprob(prompt + logged["token_ids"], len(prompt) + i) for i in range(len(logged["token_ids"]))]
        assert unpack_floats(record.logprobs) == pytest.approx(expected)
        assert (record.prompt_len, record.prompt_digest) == (len(prompt), digest_packed(pack_ids(prompt)))
        assert (record.delivery, record.streamed, record.api, record.model) == ("sent", streamed, "openai.chat", "any-name")
        assert record.sampling["temperature"] == 0.5
        assert record.sampling["seed"] == world.engine.requests[record.seq - 1]["seed"]
    assert [(r.seq, r.parent_seq, r.parent_status, r.finish_reason) for r in world.records] == [
        (1, None, "root", "tool_calls"), (2, 1, "extends", "tool_calls"), (3, 2, "extends", "stop"),
    ]  # fmt: skip
    assert world.records[2].reply["content"] == "done"


async def test_a_stream_is_passed_on_byte_for_byte(world: World) -> None:
    base = await world.open()
    world.engine.script = Script(rules=[Rule(text="ünï ☃")])
    async with world.stream(base, stream_options={"include_usage": True}) as through:
        passed = await through.read()
        assert through.headers["content-type"].startswith("text/event-stream")
    async with world.http.post(f"{world.engine.url}/v1/chat/completions", json=world.engine.requests[0]) as direct:
        expected = await direct.read()
    events = [json.loads(line[6:]) for line in passed.splitlines() if line.startswith(b"data: {")]
    assert passed.replace(b"chatcmpl-1", b"chatcmpl-2").replace(*created(passed, expected)) == expected
    assert events[-1]["usage"]["completion_tokens"] == len(unpack_ids(world.records[0].completion))


def created(one: bytes, other: bytes) -> tuple[bytes, bytes]:
    """The `created` fields of two streams, which may be a second apart."""
    first, second = (b'"created":' + s.split(b'"created":')[1].split(b",")[0] for s in (one, other))
    return first, second


async def test_the_end_of_a_stream_waits_for_the_record(world: World) -> None:
    base = await world.open()
    world.bus.free.clear()
    async with world.stream(base) as response:
        await world.bus.waiting.wait()
        early = await asyncio.wait_for(response.content.readuntil(b'"token_ids":[101]}]}\n\n'), 5)
        assert b'"finish_reason":"stop"' not in early
        rest = asyncio.create_task(response.read())
        assert not (await asyncio.wait({rest}, timeout=0.1))[0]
        assert not world.records
        assert await world.sessions.replicas.in_flight() == 1
        world.bus.free.set()
        late = await rest
    assert b'"finish_reason":"stop"' in late
    assert late.endswith(b"data: [DONE]\n\n")
    assert len(world.records) == 1


async def test_a_whole_reply_waits_for_the_record(world: World) -> None:
    base = await world.open()
    world.bus.free.clear()
    call = asyncio.create_task(world.chat(base))
    await world.bus.waiting.wait()
    assert not (await asyncio.wait({call}, timeout=0.1))[0]
    world.bus.free.set()
    assert (await call)[0] == 200


async def test_a_call_leaves_its_intent_before_the_engine_hears_of_it(world: World) -> None:
    base = await world.open()
    world.engine.script = Script(rules=[Rule(delay_s=0.2)])
    call = asyncio.create_task(world.chat(base))
    async with asyncio.timeout(5):
        while not world.engine.requests:
            assert not call.done()
            await asyncio.sleep(0)
    assert await world.sessions.replicas.in_flight() == 1
    await call


async def test_the_same_prompt_many_times_gives_as_many_records(world: World) -> None:
    base = await world.open()
    answers = await asyncio.gather(*(world.chat(base) for _ in range(200)))
    assert {status for status, _ in answers} == {200}
    assert sorted(r.seq for r in world.records) == list(range(1, 201))
    assert {r.parent_status for r in world.records} == {"root"}
    assert await world.seal() == {"calls": 200, "errored": [], "cut": [], "lost": []}
    assert sum(len(unpack_ids(r.completion)) for r in world.records) == world.engine.generated


async def test_interleaved_subagents_keep_their_own_chains(world: World) -> None:
    base = await world.open()
    main: list[dict[str, Any]] = [{"role": "user", "content": "main"}]
    sub: list[dict[str, Any]] = [{"role": "user", "content": "sub"}]
    for messages in (main, sub, main, sub):
        _, answer = await world.chat(base, messages)
        messages += [answer["choices"][0]["message"], {"role": "user", "content": "go on"}]
    assert [r.parent_seq for r in world.records] == [None, None, 1, 2]
    assert full_prompts(world.records)[4] == world.engine.finished[3]["prompt_token_ids"]


async def test_the_secret_may_be_the_key_of_the_api(world: World) -> None:
    secret = (await world.open()).rpartition("/")[2]
    for headers in ({"authorization": f"Bearer {secret}"}, {"x-api-key": secret}):
        async with world.http.post(f"{world.proxy.url}/v1/chat/completions", json=body("hi"), headers=headers) as response:
            assert response.status == 200
    assert [r.seq for r in world.records] == [1, 2]


async def test_forced_tools_and_wishes_are_noted(world: World) -> None:
    base = await world.open()
    await world.chat(base, tool_choice="required", tools=TOOLS, temperature=0.1, seed=5)
    [record] = world.records
    assert record.constrained
    assert record.requested == {"temperature": 0.1, "seed": 5}
    assert record.sampling == {"temperature": 1.0, "top_p": 1.0}


async def test_a_call_carries_the_version_that_is_served(world: World) -> None:
    base = await world.open()
    await world.reopen(7)
    await world.chat(base)
    assert (world.records[0].weight_version_start, world.records[0].weight_version_end) == (7, 7)


async def test_models_are_listed(world: World) -> None:
    base = await world.open()
    for url in (f"{base}/v1/models", f"{world.proxy.url}/v1/models"):
        async with world.http.get(url) as response:
            assert [m["id"] for m in (await response.json())["data"]] == ["policy"]


async def test_a_whole_reply_says_everything_once(world: World) -> None:
    said = {"model": "m", "input": "DO: ls", "tools": [{"type": "function", "name": "bash", "parameters": {"type": "object"}}]}
    async with world.http.post(f"{await world.open()}/v1/responses", json=said) as response:
        output = (await response.json())["output"]
    [record] = world.records
    calls = [item["arguments"] for item in output if item["type"] == "function_call"]
    assert calls == [c["function"]["arguments"] for c in record.reply["tool_calls"]] != []


@pytest.mark.parametrize("size", [18, 30])
async def test_a_model_may_write_integers_of_any_size(world: World, size: int) -> None:
    base = await world.open()
    call = Call(name="bash", arguments={"command": int("9" * size)})
    world.engine.script = Script(rules=[Rule(tool_calls=[call])])
    assert (await world.chat(base))[0] == 200
    assert json.loads(world.records[0].reply["tool_calls"][0]["function"]["arguments"]) == call.arguments
