"""Conversations in the dialects that are translated: one chain of ids, and errors in the dialect's own shape."""

from __future__ import annotations

import json
from typing import Any, Protocol

import pytest

from tests.unit.proxy import test_dialect_anthropic_write as anthropic
from tests.unit.proxy import test_dialect_gemini_write as gemini
from tests.unit.proxy.test_proxy_calls import full_prompts
from tests.unit.proxy.world import MakeWorld, World

Json = dict[str, Any]
ORDERS = "DO: ls\nDO: cat ä"
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}}


class Harness(Protocol):
    """A conversation in some dialect: the next request, and what follows from its reply."""

    api: str
    path: str
    stated: Json
    """What an error for a secret that is not known looks like, but for its message."""

    def __init__(self, *, stream: bool) -> None: ...

    def request(self) -> Json: ...

    def take(self, body: bytes) -> None: ...


class ClaudeLike:
    api = "anthropic.messages"
    path = "/v1/messages?beta=true"
    stated = {"type": "authentication_error"}

    def __init__(self, *, stream: bool) -> None:
        self._stream = stream
        self._messages: list[Json] = [{"role": "user", "content": ORDERS}]

    def request(self) -> Json:
        tools = [{"name": "bash", "input_schema": SCHEMA}]
        return {"model": "m", "max_tokens": 99, "stream": self._stream, "tools": tools, "messages": self._messages}

    def take(self, body: bytes) -> None:
        content = (anthropic.assembled(anthropic.events(body)) if self._stream else json.loads(body))["content"]
        for block in content:
            if isinstance(block.get("input"), str):
                block["input"] = json.loads(block["input"])
        uses = [block for block in content if block["type"] == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": use["id"], "content": "ok"} for use in uses]
        self._messages += [{"role": "assistant", "content": content}, {"role": "user", "content": results}]


class GeminiLike:
    api = "gemini"
    stated = {"code": 401, "status": "UNAUTHENTICATED"}

    def __init__(self, *, stream: bool) -> None:
        self._stream = stream
        self.path = f"/v1beta/models/m:{'streamGenerateContent?alt=sse' if stream else 'generateContent'}"
        self._contents: list[Json] = [{"role": "user", "parts": [{"text": ORDERS}]}]

    def request(self) -> Json:
        return {
            "contents": self._contents,
            "tools": [{"functionDeclarations": [{"name": "bash", "parametersJsonSchema": SCHEMA}]}],
        }

    def take(self, body: bytes) -> None:
        whole = gemini.assembled(gemini.chunks(body)) if self._stream else json.loads(body)
        content = whole["candidates"][0]["content"]
        calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        answers = [{"functionResponse": {"id": c["id"], "name": c["name"], "response": {"output": "ok"}}} for c in calls]
        self._contents += [content, {"role": "user", "parts": answers}]


HARNESSES = [ClaudeLike, GeminiLike]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", HARNESSES)
async def test_a_conversation_is_one_chain_of_ids(make_world: MakeWorld, kind: type[Harness], stream: bool) -> None:
    world, harness = await make_world(mode="splice"), kind(stream=stream)
    base = await world.open()
    for _ in range(3):
        async with world.http.post(base + harness.path, json=harness.request()) as response:
            assert response.status == 200, await response.text()
            harness.take(await response.read())
    assert [(r.api, r.parent_seq, r.spliced, r.fork, r.streamed) for r in world.records] == [
        (harness.api, None, False, "", stream), (harness.api, 1, True, "", stream), (harness.api, 2, True, "", stream),
    ]  # fmt: skip
    prompts = full_prompts(world.records)
    assert [prompts[r.seq] for r in world.records] == [logged["prompt_token_ids"] for logged in world.engine.finished]


@pytest.mark.parametrize("kind", HARNESSES)
async def test_errors_have_the_shape_of_the_dialect(world: World, kind: type[Harness]) -> None:
    harness = kind(stream=True)
    async with world.http.post(f"{world.proxy.url}/run/nobody{harness.path}", json=harness.request()) as response:
        error = json.loads(await response.read())["error"]
    assert response.status == 401
    assert {name: value for name, value in error.items() if name != "message"} == harness.stated


@pytest.mark.parametrize(
    ("path", "request_body", "counted"),
    [
        ("/v1/messages/count_tokens", {"model": "m", "messages": [{"role": "user", "content": "hi"}]}, "input_tokens"),
        ("/v1beta/models/m:countTokens", {"contents": [{"parts": [{"text": "hi"}]}]}, "totalTokens"),
    ],
)
async def test_counting_is_no_call(world: World, path: str, request_body: Json, counted: str) -> None:
    base = await world.open()
    async with world.http.post(base + path, json=request_body) as response:
        tokens = json.loads(await response.read())
    assert list(tokens) == [counted]
    assert tokens[counted] > len("hi")
    assert world.records == []
