"""A reply in the words of Gemini's API."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from services.proxy.dialects.arguments import as_object
from services.proxy.dialects.base import Delta, Reply, ToolCall, Usage
from services.proxy.dialects.terms import encode

_TEXT = b'{"candidates":[{"content":{"parts":[{"text":'
_THOUGHT = b'{"candidates":[{"content":{"parts":[{"thought":true,"text":'


class _Text(msgspec.Struct, omit_defaults=True):
    text: str
    thought: bool = False


class _FunctionCall(msgspec.Struct):
    id: str
    name: str
    args: Raw


class _Call(msgspec.Struct, rename="camel"):
    function_call: _FunctionCall


class _Content(msgspec.Struct):
    parts: list[_Text | _Call]
    role: str = "model"


class _Candidate(msgspec.Struct, rename="camel"):
    content: _Content
    finish_reason: str
    index: int = 0


class _UsageMetadata(msgspec.Struct, rename="camel"):
    prompt_token_count: int
    candidates_token_count: int
    total_token_count: int
    cached_content_token_count: int


class _Response(msgspec.Struct, rename="camel"):
    candidates: list[_Candidate]
    usage_metadata: _UsageMetadata
    model_version: str
    response_id: str


class GeminiWriter:
    """Words one reply. A function call is told when it is whole, as the format has no increments of one.

    Args:
        model: name that the harness asked for.
        reply_id: of the reply.
        array: a whole reply is the one element of an array: what `streamGenerateContent` gives without server-sent events.
    """

    def __init__(self, model: str, reply_id: str, *, array: bool) -> None:
        self._model = model
        self._id = reply_id
        self._array = array
        self._end = b'}],"role":"model"},"index":0}],"modelVersion":%b,"responseId":%b}' % (encode(model), encode(reply_id))

    def start(self, prompt_tokens: int) -> bytes:
        """Nothing: a stream of Gemini's begins with its first part."""
        return b""

    def add(self, delta: Delta) -> bytes:
        """A chunk for reasoning and one for text. For a call, an empty line: a long one must not look like a dead stream."""
        events = b"\r\n" if delta.tools else b""
        if delta.reasoning:
            events += _event(_THOUGHT + encode(delta.reasoning) + self._end)
        if delta.content:
            events += _event(_TEXT + encode(delta.content) + self._end)
        return events

    def finish(self, reply: Reply) -> bytes:
        """The chunk with the calls, the reason and the token counts."""
        return _event(encode(self._response(reply, [])))

    def whole(self, reply: Reply) -> bytes:
        """The response object, or an array of it."""
        parts: list[_Text | _Call] = [_Text(reply.reasoning, thought=True)] if reply.reasoning else []
        if reply.content:
            parts.append(_Text(reply.content))
        response = self._response(reply, parts)
        return encode([response] if self._array else response)

    def _response(self, reply: Reply, parts: list[_Text | _Call]) -> _Response:
        content = _Content([*parts, *map(_call, reply.tool_calls)])
        reason = "MAX_TOKENS" if reply.finish_reason == "length" else "STOP"
        return _Response([_Candidate(content, reason)], _usage(reply.usage), self._model, self._id)


def _event(data: bytes) -> bytes:
    """An event. Google's client for JavaScript takes Unicode's own line ends for the end of one."""
    return b"data: %b\r\n\r\n" % data.replace("\u2028".encode(), b"\\u2028").replace("\u2029".encode(), b"\\u2029")


def _call(call: ToolCall) -> _Call:
    """Malformed arguments go out inside an object. The API would end such a reply with `MALFORMED_FUNCTION_CALL` and no call,
    for which gemini-cli samples again until one fits: the model would never meet its mistake, nor learn from it."""
    return _Call(_FunctionCall(call.id, call.name, as_object(call.arguments)))


def _usage(usage: Usage) -> _UsageMetadata:
    return _UsageMetadata(usage.prompt, usage.completion, usage.prompt + usage.completion, usage.cached)
