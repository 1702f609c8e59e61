"""Anthropic's Messages API from the client's side: a chat request in its words, and its events as chat chunks. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from services.proxy.dialects.arguments import as_object
from services.proxy.errors import bad_request
from services.proxy.sampling import EngineRequest
from shared.errors import FidelityError

Json = dict[str, Any]

MOST_TOKENS = 8192
"""Limit on a reply where nobody set one; the API wants one."""
_SAME = ("model", "temperature", "top_p", "top_k")
_CHOICES = {"auto": "auto", "required": "any", "none": "none"}
_FINISHED = {"max_tokens": "length", "tool_use": "tool_calls"}
_INPUTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")

_messages = msgspec.json.Decoder(Json)


class AnthropicTeacher:
    """`POST /v1/messages`."""

    path = "/v1/messages"

    def headers(self, key: str) -> Mapping[str, str]:
        """The key and the version of the API."""
        return {"anthropic-version": "2023-06-01"} | ({"x-api-key": key} if key else {})

    def body(self, request: EngineRequest, messages: list[msgspec.Raw]) -> bytes:
        """The request for a stream.

        Raises:
            Refused: 400, it asks for a format of the reply.
        """
        fields: Json = msgspec.json.decode(msgspec.json.encode(request.fields))
        if fields.get("response_format"):
            raise bad_request("response_format cannot be carried to an Anthropic teacher; leave it out")
        try:
            return msgspec.json.encode(_body(fields, [_messages.decode(m) for m in messages]))
        except (KeyError, TypeError, AttributeError) as e:
            raise bad_request(f"the request cannot be carried to an Anthropic teacher: {type(e).__name__}: {e}") from None

    def chunks(self) -> AnthropicChunks:
        """Reads a reply."""
        return AnthropicChunks()


def _body(fields: Json, said: list[Json]) -> Json:
    body: Json = {name: fields[name] for name in _SAME if fields.get(name) is not None}
    body |= {"max_tokens": fields.get("max_tokens") or MOST_TOKENS, "stream": True, "messages": _turns(said)}
    if system := "\n".join(_text(m["content"]) for m in said if m["role"] == "system"):
        body["system"] = system
    if stop := fields.get("stop"):
        body["stop_sequences"] = [stop] if isinstance(stop, str) else stop
    if tools := fields.get("tools"):
        body |= {"tools": [_tool(t["function"]) for t in tools], "tool_choice": _choice(fields)}
    return body


class AnthropicChunks:
    """The events of one reply as chat chunks."""

    def __init__(self) -> None:
        self._prompt = 0
        self._cached = 0
        self._calls = -1
        self._input: Json | None = None  # of the open tool call, as long as no part of it has come

    def read(self, data: bytes) -> list[bytes]:
        """The chunks of an event; most give one, some none.

        Raises:
            FidelityError: it cannot be read.
        """
        try:
            event = _messages.decode(data)
            return [msgspec.json.encode(chunk) for chunk in self._chunks(event)]
        except (msgspec.DecodeError, KeyError, TypeError, AttributeError) as e:
            raise FidelityError(f"the teacher's event cannot be read: {type(e).__name__}: {e}") from None

    def _chunks(self, event: Json) -> Iterator[Json]:
        match event["type"]:
            case "message_start":
                usage = event["message"].get("usage", {})
                self._prompt = sum(usage.get(name) or 0 for name in _INPUTS)
                self._cached = usage.get("cache_read_input_tokens") or 0
            case "content_block_start":
                yield from self._start(event["content_block"])
            case "content_block_delta":
                yield from self._add(event["delta"])
            case "content_block_stop":
                if self._input is not None:
                    yield self._arguments(msgspec.json.encode(self._input).decode())
            case "message_delta":
                yield self._finish(event["delta"], event.get("usage", {}))
            case "error":
                yield {"error": event["error"]}

    def _start(self, block: Json) -> Iterator[Json]:
        if block["type"] == "tool_use":
            self._calls += 1
            self._input = block.get("input") or {}
            function = {"name": block["name"], "arguments": ""}
            yield _delta(tool_calls=[{"index": self._calls, "id": block["id"], "function": function}])

    def _add(self, delta: Json) -> Iterator[Json]:
        match delta["type"]:
            case "text_delta":
                yield _delta(content=delta["text"])
            case "thinking_delta":
                yield _delta(reasoning=delta["thinking"])
            case "input_json_delta" if delta["partial_json"]:
                yield self._arguments(delta["partial_json"])

    def _arguments(self, text: str) -> Json:
        self._input = None
        return _delta(tool_calls=[{"index": self._calls, "function": {"arguments": text}}])

    def _finish(self, delta: Json, usage: Json) -> Json:
        reason = _FINISHED.get(delta["stop_reason"], "stop")
        choice = {"finish_reason": reason, "stop_reason": delta.get("stop_sequence")}
        counts = {
            "prompt_tokens": self._prompt, "completion_tokens": usage.get("output_tokens") or 0,
            "prompt_tokens_details": {"cached_tokens": self._cached},
        }  # fmt: skip
        return {"choices": [choice], "usage": counts}


def _delta(**said: Any) -> Json:
    return {"choices": [{"delta": said}]}


def _turns(messages: list[Json]) -> list[Json]:
    """Messages of user and assistant by turns: tool results are the user's."""
    turns: list[Json] = []
    for message in messages:
        if message["role"] == "system":
            continue
        role = "assistant" if message["role"] == "assistant" else "user"
        blocks = list(_blocks(message))
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": role, "content": blocks})
    return turns


def _blocks(message: Json) -> Iterator[Json]:
    content = message.get("content") or ""
    if message["role"] == "tool":
        yield {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": _text(content)}
        return
    parts: list[Json] = [{"type": "text", "text": content}] if isinstance(content, str) else content
    for part in parts:
        if part["type"] == "image_url":
            yield {"type": "image", "source": _source(part["image_url"]["url"])}
        elif part.get("text"):
            yield {"type": "text", "text": part["text"]}
    for call in message.get("tool_calls") or ():
        function = call["function"]
        yield {"type": "tool_use", "id": call["id"], "name": function["name"], "input": as_object(function["arguments"])}


def _text(content: str | list[Json]) -> str:
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def _source(url: str) -> Json:
    head, comma, data = url.partition(",")
    if not (comma and head.startswith("data:")):
        return {"type": "url", "url": url}
    return {"type": "base64", "media_type": head.removeprefix("data:").partition(";")[0], "data": data}


def _tool(function: Json) -> Json:
    described = {"description": function["description"]} if function.get("description") else {}
    return {"name": function["name"], **described, "input_schema": function.get("parameters") or {"type": "object"}}


def _choice(fields: Json) -> Json:
    wanted = fields.get("tool_choice") or "auto"
    named: Json = (
        {"type": _CHOICES[wanted]} if isinstance(wanted, str) else {"type": "tool", "name": wanted["function"]["name"]}
    )
    alone = fields.get("parallel_tool_calls") is False and named["type"] != "none"
    return named | ({"disable_parallel_tool_use": True} if alone else {})
