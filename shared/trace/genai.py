"""Model calls in the words of OpenTelemetry's conventions for generative AI (semconv 0.66, still in development there). Pure.

No name of theirs stands anywhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from shared.events import CallRecorded

Attribute = str | int | float | bool | list[str]

_SAMPLING = ("temperature", "top_p", "top_k", "max_tokens", "seed", "frequency_penalty", "presence_penalty")


def name_of(call: CallRecorded) -> str:
    """Of a call's span."""
    return f"chat {call.model}"


def attributes_of(call: CallRecorded) -> dict[str, Attribute]:
    """What is said of a call without its content."""
    said: dict[str, Attribute] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "vllm" if call.tokens else call.api.partition(".")[0],
        "gen_ai.request.model": call.model,
        "gen_ai.request.stream": call.streamed,
        "gen_ai.usage.input_tokens": call.prompt_len,
        "gen_ai.usage.output_tokens": len(call.completion) // 4,
    }
    if call.finish_reason:
        said["gen_ai.response.finish_reasons"] = [call.finish_reason]
    numbers = {name: call.sampling.get(name) for name in _SAMPLING}
    return said | {f"gen_ai.request.{name}": value for name, value in numbers.items() if isinstance(value, int | float)}


def content_of(call: CallRecorded) -> dict[str, Attribute]:
    """What was said in a call: the messages that are new in it, and the reply, as JSON."""
    messages = [_message(msgspec.json.decode(raw)) for raw in call.messages]
    said: dict[str, Attribute] = {"gen_ai.input.messages": _json(messages)}
    if call.reply:
        reply = _message(call.reply) | {"finish_reason": call.finish_reason or ""}
        said["gen_ai.output.messages"] = _json([reply])
    if tools := msgspec.json.decode(call.tools):
        said["gen_ai.tool.definitions"] = _json(tools)
    return said


def _message(message: Any) -> dict[str, Any]:
    """An OpenAI chat message in parts; what harnesses send is passed on as text where it is nothing known."""
    if not isinstance(message, Mapping):
        return {"role": "user", "parts": [_text(message)]}
    parts = [_text(message[key], kind) for key, kind in (("reasoning_content", "reasoning"),) if message.get(key)]
    role, content = str(message.get("role", "assistant")), message.get("content")
    if role == "tool":
        parts.append({"type": "tool_call_response", "id": str(message.get("tool_call_id", "")), "response": content})
    elif content:
        parts += [_part(part) for part in (content if isinstance(content, list) else [content])]
    calls = message.get("tool_calls")
    parts += [_called(call) for call in (calls if isinstance(calls, list) else [])]
    return {"role": role, "parts": parts}


def _part(part: Any) -> dict[str, Any]:
    text = part.get("text") if isinstance(part, Mapping) else part
    return _text(part if text is None else text)


def _called(call: Any) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        return _text(call)
    named = {"name": str(function.get("name", "")), "arguments": function.get("arguments")}
    return {"type": "tool_call", "id": str(call.get("id", ""))} | named


def _text(content: Any, kind: str = "text") -> dict[str, Any]:
    return {"type": kind, "content": content if isinstance(content, str) else _json(content)}


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode(errors="replace")
