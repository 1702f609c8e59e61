"""Harnesses that talk to several proxies in turn, and try again as real clients do when a call fails."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count, cycle
from typing import Any, Literal

import aiohttp

Json = dict[str, Any]
Dialect = Literal["chat", "anthropic"]
TURNS = 6
"""Of one conversation; then a talker begins another in the same session."""

_RETRY_S = 0.3
_ROUTES = {"chat": "/v1/chat/completions", "anthropic": "/v1/messages"}
_SCHEMA: Json = {"type": "object", "properties": {"command": {"type": "string"}}}
_TOOLS: dict[Dialect, list[Json]] = {
    "chat": [{"type": "function", "function": {"name": "bash", "parameters": _SCHEMA}}],
    "anthropic": [{"name": "bash", "input_schema": _SCHEMA}],
}
_ENDS = {"chat": b"data: [DONE]\n\n", "anthropic": b"event: message_stop\n"}


@dataclass(frozen=True, slots=True)
class Whole:
    """A reply that came whole: its text, and the arguments of the tools that it calls."""

    text: str
    calls: tuple[Json, ...]


class Broken(Exception):
    """A reply that did not come whole."""


@dataclass
class Talker:
    """One rollout's harness.

    Attributes:
        session_id: of its session.
        urls: of the session at each proxy; they are asked in turn.
        dialect, streamed: how it asks.
        got: replies that came whole.
        failed: tries that did not.
    """

    session_id: str
    urls: Sequence[str]
    dialect: Dialect
    streamed: bool
    http: aiohttp.ClientSession
    got: list[Whole] = field(default_factory=list)
    failed: int = 0

    def __post_init__(self) -> None:
        self._turns = cycle(self.urls)

    async def talk(self, enough: asyncio.Event) -> None:
        """Has one conversation after another until there are enough, and ends the one that it is in."""
        for number in count(1):
            await self._converse(number)
            if enough.is_set():
                return

    async def _converse(self, number: int) -> None:
        messages: list[Json] = [{"role": "user", "content": f"{self.session_id} conversation {number}\nDO: echo {number}"}]
        for turn in range(TURNS):
            reply = await self._ask(messages)
            messages += self._went_on(reply)
            if not reply.calls:
                messages.append({"role": "user", "content": f"say something, turn {turn}"})

    def _went_on(self, reply: Whole) -> list[Json]:
        """The reply as this harness sends it back, and what its tools gave."""
        ids = [f"id-{n}" for n, _ in enumerate(reply.calls)]
        if self.dialect == "anthropic":
            blocks: list[Json] = [{"type": "text", "text": reply.text}] if reply.text else []
            used = [{"type": "tool_use", "id": i, "name": "bash", "input": a} for i, a in zip(ids, reply.calls, strict=True)]
            given = [{"type": "tool_result", "tool_use_id": i, "content": "ok"} for i in ids]
            said: list[Json] = [{"role": "assistant", "content": blocks + used}]
            return said + ([{"role": "user", "content": given}] if given else [])
        calls = [
            {"id": i, "type": "function", "function": {"name": "bash", "arguments": json.dumps(a, indent=1)}}
            for i, a in zip(ids, reply.calls, strict=True)
        ]
        message: Json = {"role": "assistant", "content": reply.text} | ({"tool_calls": calls} if calls else {})
        return [message, *({"role": "tool", "tool_call_id": i, "content": "ok"} for i in ids)]

    async def _ask(self, messages: list[Json]) -> Whole:
        while True:
            try:
                whole = await self._try(next(self._turns), messages)
            except (aiohttp.ClientError, Broken):
                self.failed += 1
                await asyncio.sleep(_RETRY_S)
                continue
            self.got.append(whole)
            return whole

    async def _try(self, url: str, messages: list[Json]) -> Whole:
        body: Json = {"model": "m", "messages": messages, "tools": _TOOLS[self.dialect], "stream": self.streamed}
        body |= {"max_tokens": 400} if self.dialect == "anthropic" else {}
        async with self.http.post(url + _ROUTES[self.dialect], json=body) as response:
            answer = await response.read()
            if response.status >= 500:
                raise Broken
            assert response.status == 200, answer
        if self.streamed and _ENDS[self.dialect] not in answer:
            raise Broken
        read = {"chat": _chat_events, "anthropic": _anthropic_events}[self.dialect] if self.streamed else _WHOLE[self.dialect]
        return read(answer)


def _chat_whole(answer: bytes) -> Whole:
    message = json.loads(answer)["choices"][0]["message"]
    calls = message.get("tool_calls") or ()
    return Whole(message["content"] or "", tuple(json.loads(c["function"]["arguments"]) for c in calls))


def _chat_events(answer: bytes) -> Whole:
    text, arguments = "", ""
    for delta in (event["choices"][0]["delta"] for event in _events(answer) if event["choices"]):
        text += delta.get("content") or ""
        arguments += "".join(c["function"]["arguments"] for c in delta.get("tool_calls") or ())
    return Whole(text, (json.loads(arguments),) if arguments else ())


def _anthropic_whole(answer: bytes) -> Whole:
    blocks = json.loads(answer)["content"]
    text = "".join(b["text"] for b in blocks if b["type"] == "text")
    return Whole(text, tuple(b["input"] for b in blocks if b["type"] == "tool_use"))


def _anthropic_events(answer: bytes) -> Whole:
    deltas = [event["delta"] for event in _events(answer) if event["type"] == "content_block_delta"]
    arguments = "".join(d.get("partial_json", "") for d in deltas)
    return Whole("".join(d.get("text", "") for d in deltas), (json.loads(arguments),) if arguments else ())


def _events(answer: bytes) -> list[Json]:
    return [json.loads(line[6:]) for line in answer.splitlines() if line.startswith(b"data: {")]


_WHOLE = {"chat": _chat_whole, "anthropic": _anthropic_whole}
