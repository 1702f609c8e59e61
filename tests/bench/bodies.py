"""What the harnesses of the benchmark ask for."""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from tests.bench.replies import REPLY

Api = Literal["chat", "anthropic"]

PATHS: dict[Api, str] = {"chat": "/v1/chat/completions", "anthropic": "/v1/messages"}
_CHARS_A_TOKEN = 4
_MARK = re.compile(rb"<prompt (\d+) (\d+)>")


def body(api: Api, base: int, turn: int, *, stream: bool) -> bytes:
    """The request of one turn of a conversation that began with `base` tokens; `turn` counts from 0.

    Every user message ends in a mark, by which the fake engine knows the prompt's ids without reading the rest.
    """
    messages = [_user("word " * (base * _CHARS_A_TOKEN // 5), base, 0)]
    for n in range(1, turn + 1):
        messages += [{"role": "assistant", "content": REPLY}, _user("and then?", base, n)]
    system = "You are an agent."
    request: dict[str, Any] = {"model": "policy", "stream": stream, "max_tokens": 4096}
    if api == "chat":
        request["messages"] = [{"role": "system", "content": system}, *messages]
    else:
        request |= {"system": system, "messages": messages}
    return msgspec.json.encode(request)


def marked(request: bytes) -> tuple[int, int]:
    """(base, turn) of a request: those of its last mark; of a request without one, a small prompt."""
    at = request.rfind(b"<prompt ")
    found = _MARK.match(request, at) if at >= 0 else None
    return (int(found[1]), int(found[2])) if found else (100, 0)


def _user(text: str, base: int, turn: int) -> dict[str, str]:
    return {"role": "user", "content": f"{text} <prompt {base} {turn}>"}
