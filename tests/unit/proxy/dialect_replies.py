"""Replies of any kind, and any way in which an engine may stream one."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from services.proxy.dialects.base import Delta, Reply, ToolCall, ToolDelta, Usage

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
values = st.recursive(st.none() | st.booleans() | st.integers(-9, 9) | texts, lambda v: st.lists(v, max_size=2), max_leaves=4)
objects = st.dictionaries(texts, values, max_size=3).map(
    lambda o: json.dumps(o, ensure_ascii=False, separators=(" , ", " :  "))
)
cut_objects = st.builds(lambda text, at: text[: at % len(text)], objects, st.integers(0, 99))
arguments = st.one_of(objects, objects.map(lambda o: f" {o}\n"), cut_objects, texts.map(json.dumps), st.just("[1]"))


@st.composite
def replies(draw: st.DrawFn) -> Reply:
    """Replies with reasoning, text and calls, each of which may be missing; the arguments may be malformed."""
    calls = [ToolCall(f"call-{i}", f"tool_{i}", text) for i, text in enumerate(draw(st.lists(arguments, max_size=3)))]
    finish = draw(st.sampled_from(["stop", "length"]))
    return Reply(draw(texts), draw(texts), calls, "tool_calls" if calls and finish == "stop" else finish, Usage(7, 5))


@st.composite
def streamed(draw: st.DrawFn, *, interleaved: bool) -> tuple[Reply, list[Delta]]:
    """A reply and increments of it. Interleaved ones come in any order that keeps each part's own."""
    reply, rng = draw(replies()), draw(st.randoms(use_true_random=False))
    lanes = [
        [Delta(reasoning=piece) for piece in pieces(rng, reply.reasoning)],
        [Delta(content=piece) for piece in pieces(rng, reply.content)],
        *([Delta(tools=(tool,)) for tool in tool_deltas(rng, i, call)] for i, call in enumerate(reply.tool_calls)),
    ]
    if not interleaved:
        return reply, [delta for lane in lanes for delta in lane]
    order = [i for i, lane in enumerate(lanes) for _ in lane]
    rng.shuffle(order)
    return reply, [lanes[i].pop(0) for i in order]


def pieces(rng: random.Random, text: str) -> list[str]:
    """A text cut anywhere; no piece is empty."""
    cuts = sorted({0, len(text), *(rng.randrange(len(text) + 1) for _ in range(rng.randrange(4)))})
    return [text[a:b] for a, b in pairwise(cuts)]


def tool_deltas(rng: random.Random, index: int, call: ToolCall) -> list[ToolDelta]:
    """A call's increments: the first has the name, and may have arguments as well."""
    parts = pieces(rng, call.arguments)
    first = parts.pop(0) if parts and rng.random() < 0.5 else ""
    return [ToolDelta(index, call.id, call.name, first), *(ToolDelta(index, arguments=part) for part in parts)]


def assistant(reply: Reply) -> dict[str, Any]:
    """A reply as the message of a conversation, its arguments as what they say."""
    calls = [{"id": c.id, "name": c.name, "arguments": said(c.arguments)} for c in reply.tool_calls]
    return {"content": reply.content, "reasoning": reply.reasoning, "calls": calls}


def read_back(message: dict[str, Any]) -> dict[str, Any]:
    """A chat message that a dialect read, in the form of `assistant`."""
    calls = [{"id": c["id"]} | c["function"] for c in message.get("tool_calls", [])]
    return {
        "content": message["content"],
        "reasoning": message.get("reasoning", ""),
        "calls": [call | {"arguments": said(call["arguments"])} for call in calls],
    }


def said(text: str) -> Any:
    """What arguments say: their object, or the text where it is none."""
    try:
        value = json.loads(text or "{}")
    except json.JSONDecodeError:
        return text
    return value if isinstance(value, dict) else text
