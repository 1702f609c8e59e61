"""An endpoint of models that speaks OpenAI's chat completions and Anthropic's messages over real HTTP, and answers by a script:
well, malformed, cut off, refusing, late, or not for now. What the real ones would turn down, it turns down."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
from aiohttp import web

Json = dict[str, Any]
KEY = "sk-of-the-test"


@dataclass(frozen=True)
class Asked:
    """A call that came.

    Attributes:
        api: `openai` or `anthropic`.
        body: as sent.
        prompt: the first message.
        text: the last one.
        schema: of the answer; None if it was not sent as such.
        form: what it was sent as.
        max_tokens: of the answer.
        digest: of the body: the same question has the same.
    """

    api: str
    body: Json
    prompt: str
    text: str
    schema: Json | None
    form: Literal["schema", "tool", "prompt"]
    max_tokens: int
    digest: str


@dataclass(frozen=True)
class Act:
    """What becomes of a call.

    Attributes:
        text: of the answer.
        end: how it ends.
        status: of HTTP; other than 200 is an error, with `text` as its message.
        headers: besides.
        late_s: before anything is sent.
        drop: the connection is closed instead.
        raw: sent as it is, in place of an answer.
    """

    text: str = ""
    end: Literal["done", "cut", "refused"] = "done"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    late_s: float = 0.0
    drop: bool = False
    raw: bytes | None = None


def said(value: Any) -> Act:
    """A good answer."""
    return Act(msgspec.json.encode(value).decode())


class ScriptedModels:
    """The server.

    Args:
        script: what becomes of a call.
        api: that those who start it mean to ask; it speaks both.

    Attributes:
        asked: all calls.
        answered: those that were answered whole with HTTP 200, by digest, in order.
    """

    def __init__(self, script: Callable[[Asked], Act], api: Literal["openai", "anthropic"] = "openai") -> None:
        self.asked: list[Asked] = []
        self.answered: list[str] = []
        self.script, self.api = script, api
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def start(self, port: int = 0) -> None:
        """Listens."""
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._openai)
        app.router.add_post("/v1/messages", self._anthropic)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port)
        await site.start()
        bound: tuple[str, int] = self._runner.addresses[0]
        self.url = f"http://127.0.0.1:{bound[1]}"

    async def stop(self) -> None:
        """Stops listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _openai(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return _error(401, f"Incorrect API key provided: {request.headers.get('authorization')}")
        schema, form = None, "prompt"
        if chosen := body.get("response_format"):
            schema, form = chosen["json_schema"]["schema"], "schema"
            if not chosen["json_schema"]["strict"] or (problem := _loose(schema)):
                return _error(400, f"Invalid schema for response_format: {problem or 'not strict'}")
        elif tools := body.get("tools"):
            schema, form = tools[0]["function"]["parameters"], "tool"
        limit = body.get("max_tokens") or body["max_completion_tokens"]
        return await self._act(request, _asked("openai", body, schema, form, limit), _completion)

    async def _anthropic(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if request.headers.get("x-api-key") != KEY or not request.headers.get("anthropic-version"):
            return _error(401, f"invalid x-api-key {request.headers.get('x-api-key')}")
        schema, form = None, "prompt"
        if chosen := body.get("output_config"):
            schema, form = chosen["format"]["schema"], "schema"
            if problem := _loose(schema):
                return _error(400, f"output_config.format.schema: {problem}")
        elif tools := body.get("tools"):
            schema, form = tools[0]["input_schema"], "tool"
        return await self._act(request, _asked("anthropic", body, schema, form, body["max_tokens"]), _message)

    async def _act(self, request: web.Request, asked: Asked, write: Callable[[Asked, Act], Json]) -> web.StreamResponse:
        self.asked.append(asked)
        act = self.script(asked)
        if act.late_s:
            await asyncio.sleep(act.late_s)
        if act.drop:
            assert request.transport is not None
            request.transport.close()
            return web.Response()
        if act.status != 200:
            return _error(act.status, act.text, act.headers)
        self.answered.append(asked.digest)
        if act.raw is not None:
            return web.Response(body=act.raw, content_type="application/json")
        return web.json_response(write(asked, act), headers=act.headers)


def _asked(api: str, body: Json, schema: Json | None, form: Any, limit: int) -> Asked:
    messages = [message["content"] for message in body["messages"]]
    digest = hashlib.sha256(msgspec.json.encode(body, order="deterministic")).hexdigest()
    return Asked(api, body, messages[0], messages[-1], schema, form, limit, digest)


def _loose(schema: Json) -> str:
    """Why strict structured outputs do not take a schema."""
    for part in (schema, *schema.get("$defs", {}).values()):
        if part.get("additionalProperties") is not False:
            return "'additionalProperties' is required to be supplied and to be false"
        if sorted(part.get("required", ())) != sorted(part["properties"]):
            return "'required' is required to be an array including every key in properties"
    return ""


def _error(status: int, text: str, headers: dict[str, str] | None = None) -> web.Response:
    said = {"type": "error", "error": {"type": "error", "message": text, "code": None, "param": None}}
    return web.json_response(said, status=status, headers=headers)


def _completion(asked: Asked, act: Act) -> Json:
    message: Json = {"role": "assistant", "content": act.text, "refusal": None}
    if act.end == "refused":
        message |= {"content": None, "refusal": act.text}
    elif asked.form == "tool":
        call = {"id": "call_1", "type": "function", "function": {"name": "answer", "arguments": act.text}}
        message |= {"content": None, "tool_calls": [call]}
    usage = {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150}
    finish = {"done": "stop", "cut": "length", "refused": "stop"}[act.end]
    return {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": asked.body["model"], "usage": usage,
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
    }  # fmt: skip


def _message(asked: Asked, act: Act) -> Json:
    block: Json = {"type": "text", "text": act.text}
    if asked.form == "tool" and act.end == "done":
        block = {"type": "tool_use", "id": "toolu_1", "name": "answer", "input": msgspec.json.decode(act.text)}
    stop = {"done": "tool_use" if asked.form == "tool" else "end_turn", "cut": "max_tokens", "refused": "refusal"}[act.end]
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": asked.body["model"], "content": [block],
        "stop_reason": stop, "stop_sequence": None, "usage": {"input_tokens": 100, "output_tokens": 50},
    }  # fmt: skip
