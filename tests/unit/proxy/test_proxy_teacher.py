"""Teacher mode: every dialect in front of both APIs; calls are recorded as text, scored, and never trained on."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import anthropic
import openai
import pytest

from services.proxy.service import ProxyService
from shared.config import Config, EngineConfig, ProxyConfig
from shared.errors import ConfigError
from shared.events import CallRecorded
from tests.unit.proxy.teachers import ARGUMENTS, CACHED, PROMPT, SAID, SAMPLED, THOUGHT, FakeTeacher
from tests.unit.proxy.world import KEY, Json, MakeWorld, World

APIS = ("openai", "anthropic")
TEXT = "".join(SAID)
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}


@pytest.fixture
async def teacher() -> AsyncIterator[FakeTeacher]:
    made = FakeTeacher()
    await made.start()
    yield made
    await made.stop()


@pytest.fixture(params=APIS)
async def taught(
    request: pytest.FixtureRequest, make_world: MakeWorld, teacher: FakeTeacher, monkeypatch: pytest.MonkeyPatch
) -> World:
    """A world in teacher mode; the teacher's key is `k3y`."""
    monkeypatch.setenv("TEACHER_KEY", "k3y")
    engine = EngineConfig(url=teacher.url, api=request.param, key_env="TEACHER_KEY", served_name="the-teacher")
    return await make_world(engine=engine, mode="teacher")


def check_record(record: CallRecorded) -> None:
    assert not record.tokens
    assert (record.prompt_len, record.prompt_delta, record.completion, record.logprobs) == (0, b"", b"", b"")
    assert record.reply["content"] == TEXT
    assert record.reply["reasoning"] == THOUGHT
    assert record.path


async def test_openai_chat_streamed_with_tools(taught: World, teacher: FakeTeacher) -> None:
    base = await taught.open()
    client = openai.AsyncOpenAI(base_url=f"{base}/v1", api_key="x")
    tool: Any = {"type": "function", "function": {"name": "read", "description": "Reads.", "parameters": SCHEMA}}
    messages: list[Any] = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "hi"}]
    async with (
        client,
        client.chat.completions.stream(
            model="m", messages=messages, tools=[tool], temperature=0.3, max_tokens=99, stream_options={"include_usage": True}
        ) as stream,
    ):
        completion = await stream.get_final_completion()
    [choice] = completion.choices
    [call] = choice.message.tool_calls or []
    assert (choice.message.content, choice.finish_reason) == (TEXT, "tool_calls")
    assert (call.function.name, json.loads(call.function.arguments)) == ("read", {"path": "a.txt"})
    assert completion.usage
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (PROMPT, SAMPLED)
    [(path, headers, body)] = teacher.requests
    assert (body["model"], body["temperature"], body["max_tokens"], body["stream"]) == ("the-teacher", 0.3, 99, True)
    assert not {"return_token_ids", "logprobs", "top_logprobs"} & body.keys()
    if path == "/v1/messages":
        assert (headers["x-api-key"], body["system"]) == ("k3y", "Be short.")
        assert body["tools"] == [{"name": "read", "description": "Reads.", "input_schema": SCHEMA}]
        assert body["messages"] == [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    else:
        assert (headers["authorization"], body["messages"], body["tools"]) == ("Bearer k3y", messages, [tool])
    [record] = taught.records
    check_record(record)
    assert record.sampling == {"temperature": 0.3, "max_tokens": 99}
    assert record.reply["tool_calls"][0]["function"]["arguments"] == "".join(ARGUMENTS)


async def test_anthropic_messages_go_on_from_a_tool_result(taught: World, teacher: FakeTeacher) -> None:
    client = anthropic.AsyncAnthropic(base_url=await taught.open(), api_key="x")
    tools: Any = [{"name": "read", "input_schema": SCHEMA}]
    messages: list[Any] = [{"role": "user", "content": "hi"}]
    async with client:
        async with client.messages.stream(model="m", max_tokens=50, messages=messages, tools=tools) as stream:
            first = await stream.get_final_message()
        result = {"type": "tool_result", "tool_use_id": "call_1", "content": "inside"}
        messages += [{"role": "assistant", "content": first.model_dump()["content"]}, {"role": "user", "content": [result]}]
        second = await client.messages.create(model="m", max_tokens=50, messages=messages, tools=tools)
    assert [b.type for b in first.content] == [b.type for b in second.content] == ["thinking", "text", "tool_use"]
    assert (first.stop_reason, second.usage.input_tokens, second.usage.output_tokens) == ("tool_use", PROMPT, SAMPLED)
    (_, _, _), (path, _, body) = teacher.requests
    if path == "/v1/messages":
        use = {"type": "tool_use", "id": "call_1", "name": "read", "input": {"path": "a.txt"}}
        assert [m["role"] for m in body["messages"]] == ["user", "assistant", "user"]
        assert body["messages"][1:] == [
            {"role": "assistant", "content": [{"type": "text", "text": TEXT}, use]},
            {"role": "user", "content": [result]},
        ]
    one, two = taught.records
    check_record(one)
    check_record(two)
    assert (two.messages_from, two.fork, two.parent_seq) == (1, "", None)
    assert [json.loads(bytes(m))["role"] for m in two.messages] == ["tool"]


async def test_openai_responses_and_gemini(taught: World) -> None:
    base = await taught.open()
    async with openai.AsyncOpenAI(base_url=f"{base}/v1", api_key="x") as client:
        response = await client.responses.create(model="m", input="hi")
    assert response.output_text == TEXT
    assert response.usage
    assert response.usage.input_tokens_details.cached_tokens == CACHED
    said = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}], "generationConfig": {"temperature": 0.1, "topK": 64}}
    url = f"{base}/v1beta/models/m:streamGenerateContent?alt=sse"
    async with taught.http.post(url, json=said) as answer:
        events = [json.loads(line[6:]) for line in (await answer.text()).splitlines() if line.startswith("data: ")]
    parts = [p for e in events for p in e["candidates"][0].get("content", {}).get("parts", ())]
    assert "".join(p.get("text", "") for p in parts if not p.get("thought")) == TEXT
    for record in taught.records:
        check_record(record)
    assert [r.api for r in taught.records] == ["openai.responses", "gemini"]


async def test_an_error_in_the_middle_of_a_reply_is_reported(taught: World, teacher: FakeTeacher) -> None:
    teacher.error = "too busy"
    status, answer = await taught.chat(await taught.open())
    assert status == 502
    assert "too busy" in answer["error"]["message"]
    assert not taught.records
    assert (await taught.seal())["errored"] == [1]


async def test_tokens_are_not_counted(taught: World) -> None:
    said: Json = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    async with taught.http.post(f"{await taught.open()}/v1/messages/count_tokens", json=said) as response:
        assert response.status == 404
        assert "teacher" in (await response.json())["error"]["message"]


async def test_the_teacher_is_ready_when_the_rest_is(taught: World) -> None:
    async with taught.http.get(f"{taught.proxy.control_url}/readyz") as response:
        assert response.status == 200


async def test_a_teacher_without_its_key_is_refused(world: World) -> None:
    config = Config(engine=EngineConfig(url="http://x", key_env="NO_SUCH_KEY"), proxy=ProxyConfig(mode="teacher"))
    with pytest.raises(ConfigError, match="NO_SUCH_KEY is not set"):
        ProxyService(config, world.bus, world.sessions, world.blobs, world.boxes, control_key=KEY)
