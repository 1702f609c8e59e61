"""A small client of the Responses API: what tests send, and how a harness puts a stream together again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from services.proxy.dialects.base import Delta, Reply, Target, ToolCall, ToolDelta, Turn, Usage
from services.proxy.dialects.openai_responses import OpenAIResponses

DIALECT = OpenAIResponses()
PATH = "/v1/responses"

SHELL = {"type": "function", "name": "shell", "strict": False, "parameters": {"type": "object", "properties": {"cmd": {}}}}
PATCH = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edits files.",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: begin hunk+ end"},
}
AGENTS = {
    "type": "namespace",
    "name": "agents",
    "description": "Tools of subagents.",
    "tools": [
        {"type": "function", "name": "spawn", "description": "Starts one.", "strict": False, "parameters": {"type": "object"}},
        {
            "type": "function",
            "name": "wait",
            "description": "Waits for one.",
            "strict": False,
            "parameters": {"type": "object"},
        },
    ],
}

SEARCH = {"type": "tool_search", "execution": "client", "description": "Finds tools.", "parameters": {"type": "object"}}


def read(input: Any = "hi", path: str = PATH, **fields: Any) -> Turn:
    """The turn of a request with these fields."""
    return DIALECT.read(msgspec.json.encode({"model": "m", "input": input, **fields}), Target(path))


def messages(turn: Turn) -> list[dict[str, Any]]:
    """A turn's messages, decoded."""
    return [msgspec.json.decode(m) for m in turn.messages]


def field(turn: Turn, name: str) -> Any:
    """One of a turn's engine fields, decoded."""
    return msgspec.json.decode(turn.fields[name])


def reply(reasoning: str = "", content: str = "", calls: list[ToolCall] | None = None, finish_reason: str = "stop") -> Reply:
    """A reply of 5 tokens to a prompt of 11, 3 of them cached."""
    return Reply(reasoning, content, calls or [], finish_reason, Usage(11, 5, 3))


def deltas(whole: Reply) -> list[Delta]:
    """A reply as three increments at most, by kind."""
    tools = tuple(ToolDelta(i, c.id, c.name, c.arguments) for i, c in enumerate(whole.tool_calls))
    kinds = [Delta(reasoning=whole.reasoning), Delta(content=whole.content), Delta(tools=tools)]
    return [d for d in kinds if d != Delta()]


def streamed(turn: Turn, increments: list[Delta], whole: Reply) -> bytes:
    """All bytes of a streamed reply."""
    writer = DIALECT.writer(turn, "r-1", 1700000000)
    return writer.start(11) + b"".join(writer.add(d) for d in increments) + writer.finish(whole)


def events(stream: bytes) -> list[dict[str, Any]]:
    """The events of a stream; each has one `event` line that agrees with its data, and they are numbered from 0."""
    found = []
    for block in stream.decode().removesuffix("\n\n").split("\n\n"):
        name, data = block.split("\n")
        found.append(msgspec.json.decode(data.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    assert [e["sequence_number"] for e in found] == list(range(len(found)))
    return found


@dataclass(slots=True)
class Assembled:
    """What a client makes of a stream.

    Attributes:
        items: output items as their `done` events give them.
        texts: increments joined, one text an item.
        response: of the event that ends the stream.
    """

    items: list[dict[str, Any]]
    texts: list[str]
    response: dict[str, Any]


def assemble(stream: bytes) -> Assembled:
    """Follows one item at a time, as harnesses do: an event of an item that is not the open one is an error."""
    items: list[dict[str, Any]] = []
    texts: list[str] = []
    open_id: str | None = None
    *body, last = events(stream)
    for event in body[2:]:
        kind = event["type"]
        if kind == "response.output_item.added":
            assert open_id is None
            open_id = event["item"]["id"]
            texts.append("")
        assert event["output_index"] == len(texts) - 1
        assert event.get("item_id", open_id) == open_id
        if kind.endswith(".delta"):
            texts[-1] += event["delta"]
        elif kind == "response.output_item.done":
            assert event["item"]["id"] == open_id
            open_id = None
            items.append(event["item"])
    assert open_id is None
    return Assembled(items, texts, last["response"])
