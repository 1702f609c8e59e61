"""The dialects as they look on the wire: routes, requests that work, errors, and how to tell that a stream is whole."""

from __future__ import annotations

import json
from typing import Any

Json = dict[str, Any]

ROUTES = {
    "openai.chat": "/v1/chat/completions",
    "openai.responses": "/v1/responses",
    "anthropic.messages": "/v1/messages",
    "gemini": "/v1beta/models/m:generateContent",
}
"""Path of each API's calls, after the session's."""

ENDS = {
    "openai.chat": b"data: [DONE]\n\n",
    "openai.responses": b'"type":"response.completed"',
    "anthropic.messages": b'{"type":"message_stop"}\n\n',
    "gemini": b'"finishReason":"STOP"',
}
"""What only the end of a whole stream holds."""


def asked(api: str, text: str, *, stream: bool = False) -> Json:
    """A request that says a text."""
    streamed = {"stream": True} if stream else {}
    match api:
        case "openai.chat":
            return {"model": "m", "messages": [{"role": "user", "content": text}]} | streamed
        case "openai.responses":
            return {"model": "m", "input": text} | streamed
        case "anthropic.messages":
            return {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": text}]} | streamed
    return {"contents": [{"role": "user", "parts": [{"text": text}]}]}


def route(api: str, *, stream: bool = False) -> str:
    """The path of a call."""
    if api == "gemini" and stream:
        return "/v1beta/models/m:streamGenerateContent?alt=sse"
    return ROUTES[api]


def error_of(api: str, answer: Json) -> str:
    """The message of an error; fails unless it has the shape of its API."""
    match api:
        case "openai.chat" | "openai.responses":
            assert set(answer["error"]) == {"message", "type", "param", "code"}
        case "anthropic.messages":
            assert (answer["type"], set(answer["error"])) == ("error", {"type", "message"})
        case "gemini":
            assert set(answer["error"]) == {"code", "message", "status"}
    message = answer["error"]["message"]
    assert isinstance(message, str)
    assert message
    return message


def error_event_of(api: str, stream: bytes) -> str:
    """The message of the error that ends a stream."""
    line = stream.strip().splitlines()[-1]
    event = json.loads(line.removeprefix(b"data: "))
    if api == "openai.responses":
        assert event["type"] == "response.failed"
        return str(event["response"]["error"]["message"])
    return error_of(api, event)
