"""OpenAI chat completions. The engine speaks it too: where nothing has to be changed, its replies are passed on as bytes."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import orjson
from msgspec import Meta

from services.proxy.dialects.base import Delta, Reply, Target, ToolCall, ToolDelta, Turn, Usage
from services.proxy.dialects.besides import Besides
from services.proxy.errors import Refused, bad_request
from services.proxy.sampling import NULL, SAMPLING_FIELDS

_PATH = "/v1/chat/completions"
_Tokens = Annotated[int, Meta(ge=1)]
_GRAMMARS = ("structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar")
_MEDIA = frozenset(("image_url", "input_audio", "video_url", "audio_url", "image_embeds"))
"""Fields that make a part of a message one of media."""


class _Format(msgspec.Struct):
    type: str = "text"


class _Function(msgspec.Struct):
    strict: bool | None = None


class _Tool(msgspec.Struct):
    function: _Function | None = None


class _Request(msgspec.Struct):
    """The fields that matter here, beside the messages; all others are the engine's to judge."""

    model: str | None = None
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    n: int | None = None
    max_tokens: _Tokens | None = None
    max_completion_tokens: _Tokens | None = None
    tool_choice: str | dict[str, Any] | None = None
    response_format: _Format | None = None
    tools: list[_Tool] | None = None


class _Said(msgspec.Struct, frozen=True):
    """What a request says besides its messages; as a `Turn` has it. Calls share it: nobody may change what is in it."""

    model: str
    fields: dict[str, msgspec.Raw]
    stream: bool
    constrained: bool
    max_tokens: int | None
    requested: dict[str, Any]
    private: bool


class _Called(msgspec.Struct, frozen=True):
    name: str = ""
    arguments: str = ""


class _Call(msgspec.Struct):
    function: _Called = _Called()


class _Head(msgspec.Struct):
    role: str
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[_Call] | None = None


_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_messages = msgspec.json.Decoder(Annotated[list[msgspec.Raw], Meta(min_length=1)])
_request = msgspec.json.Decoder(_Request)
_heads = msgspec.json.Decoder(list[_Head])
_ASKED = frozenset(SAMPLING_FIELDS)


class OpenAIChat:
    """`POST /v1/chat/completions`."""

    api = "openai.chat"
    breaks_off = True

    def takes(self, path: str) -> bool:
        return path == _PATH

    def read(self, body: bytes, target: Target) -> Turn:
        """The turn of a chat request; its messages are looked at, and left as they are."""
        try:
            raw, messages, said = _parts(body)
            heads = _heads.decode(raw)
        except msgspec.ValidationError as e:
            raise bad_request(f"not a chat completions request: {e}") from None
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as e:
            raise bad_request(f"the body is not valid JSON: {e}") from None
        return Turn(
            model=said.model,
            messages=_as_the_engine_takes_them(messages, heads),
            fields=said.fields,
            stream=said.stream,
            constrained=said.constrained,
            max_tokens=said.max_tokens,
            requested=said.requested,
            media=any([_has_media(head) for head in heads if isinstance(head.content, list)]),
            private=said.private,
        )

    def writer(self, turn: Turn, reply_id: str, created: int) -> ChatWriter:
        """Words the reply; `turn.private` says whether the usage is wanted at the end of a stream."""
        return ChatWriter(turn.model, f"chatcmpl-{reply_id}", created, usage=bool(turn.private))

    def error(self, error: Refused) -> bytes:
        """`{"error": {"message", "type", "param", "code"}}`."""
        kind = "server_error" if error.status >= 500 else "invalid_request_error"
        return orjson.dumps({"error": {"message": str(error), "type": kind, "param": None, "code": error.kind}})

    def error_event(self, error: Refused) -> bytes:
        """Nothing: clients take a reported error for final, but try again when the connection breaks."""
        return b""


class ChatWriter:
    """Words one reply as chat completion chunks, or as one chat completion."""

    def __init__(self, model: str, reply_id: str, created: int, *, usage: bool) -> None:
        self._head = {"id": reply_id, "created": created, "model": model}
        self._usage = usage

    def start(self, prompt_tokens: int) -> bytes:
        return self._chunk({"role": "assistant", "content": ""})

    def add(self, delta: Delta) -> bytes:
        said: dict[str, Any] = {}
        if delta.reasoning:
            said["reasoning"] = said["reasoning_content"] = delta.reasoning
        if delta.content:
            said["content"] = delta.content
        if delta.tools:
            said["tool_calls"] = [_tool_delta(t) for t in delta.tools]
        return self._chunk(said)

    def finish(self, reply: Reply) -> bytes:
        events = self._chunk({}, reply.finish_reason)
        if self._usage:
            events += self._event({"choices": [], "usage": _usage(reply.usage)})
        return events + b"data: [DONE]\n\n"

    def whole(self, reply: Reply) -> bytes:
        choice = {"index": 0, "message": chat_message(reply), "logprobs": None, "finish_reason": reply.finish_reason}
        body = {"object": "chat.completion", "choices": [choice], "usage": _usage(reply.usage)}
        return orjson.dumps(self._head | body)

    def _chunk(self, delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
        return self._event({"choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}]})

    def _event(self, content: dict[str, Any]) -> bytes:
        return b"data: " + orjson.dumps({**self._head, "object": "chat.completion.chunk", **content}) + b"\n\n"


def chat_message(reply: Reply) -> dict[str, Any]:
    """A reply as an assistant message; reasoning under both names that clients look for."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.content}
    if reply.reasoning:
        message["reasoning"] = message["reasoning_content"] = reply.reasoning
    if reply.tool_calls:
        message["tool_calls"] = [_tool_call(c) for c in reply.tool_calls]
    return message


def _tool_call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _tool_delta(part: ToolDelta) -> dict[str, Any]:
    function: dict[str, Any] = {"arguments": part.arguments}
    if not part.name:
        return {"index": part.index, "function": function}
    return {"index": part.index, "id": part.id, "type": "function", "function": {"name": part.name, **function}}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
    }


def _read_said(rest: bytes) -> _Said:
    """What a request without its messages says.

    Raises:
        Refused, msgspec.DecodeError: it cannot be taken.
    """
    request, fields = _request.decode(rest), _fields.decode(rest)
    if request.n not in (None, 1):
        raise bad_request(f"n={request.n}: one reply per call is recorded here; ask for n=1 and call again for more")
    limits = [m for m in (request.max_tokens, request.max_completion_tokens) if m is not None]
    for name in ("model", "stream"):
        fields.pop(name, None)
    return _Said(
        model=request.model or "",
        fields=fields,
        stream=bool(request.stream),
        constrained=_constrained(request, fields),
        max_tokens=min(limits, default=None),
        requested={name: msgspec.json.decode(raw) for name, raw in fields.items() if name in _ASKED},
        private=bool((request.stream_options or {}).get("include_usage")),
    )


def _list_of(messages: bytes) -> list[msgspec.Raw]:
    try:
        return _messages.decode(messages)
    except msgspec.ValidationError as e:
        raise bad_request(f"messages: {e}") from None


_parts = Besides("messages", _list_of, _read_said)


def _as_the_engine_takes_them(messages: list[msgspec.Raw], heads: list[_Head]) -> list[msgspec.Raw]:
    """A developer's message is a system message to the engine."""
    if not any([head.role == "developer" for head in heads]):
        return messages
    return [_system(raw) if head.role == "developer" else raw for raw, head in zip(messages, heads, strict=True)]


def _system(raw: msgspec.Raw) -> msgspec.Raw:
    fields = _fields.decode(raw)
    fields["role"] = msgspec.Raw(b'"system"')
    return msgspec.Raw(msgspec.json.encode(fields))


def _has_media(head: _Head) -> bool:
    return not all(map(_MEDIA.isdisjoint, head.content or ()))


def _constrained(request: _Request, fields: dict[str, msgspec.Raw]) -> bool:
    forced = isinstance(request.tool_choice, dict) or request.tool_choice == "required"
    # vLLM samples the arguments of strict tools under a grammar, even when the choice of the tool is free
    strict = request.tool_choice != "none" and any(t.function and t.function.strict for t in request.tools or ())
    formatted = request.response_format is not None and request.response_format.type != "text"
    return forced or strict or formatted or any([fields[g] != NULL for g in _GRAMMARS if g in fields])
