"""However the engine cut a reply: the stream adds up to the whole, and comes back in the next request as one message."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from services.proxy.dialects.base import Delta, Reply, ToolCall, ToolDelta
from services.proxy.dialects.responses_custom import Unwrapper, unwrap, wrap
from tests.unit.proxy.responses_client import AGENTS, DIALECT, PATCH, SEARCH, SHELL, assemble, messages, read, reply, streamed

TOOLS = [SHELL, PATCH, AGENTS, SEARCH]
TURN = read(tools=TOOLS)
TEXT = st.text(st.characters(codec="utf-8"), max_size=30)
WRAPPED = st.builds(lambda text, ascii: json.dumps({"input": text}, ensure_ascii=ascii), TEXT, st.booleans())
CALLS = st.one_of(
    st.tuples(st.just("apply_patch"), WRAPPED),
    st.tuples(
        st.just("tool_search"), st.one_of(TEXT.filter(str.strip), TEXT.map(lambda text: json.dumps({"query": text}, indent=1)))
    ),
    st.tuples(st.sampled_from(["shell", "agents__wait", "unknown"]), st.one_of(TEXT, st.just('{"cmd": "ls"}'))),
)


@st.composite
def replies(draw: st.DrawFn) -> Reply:
    calls = [ToolCall(f"call_{i}", name, arguments) for i, (name, arguments) in enumerate(draw(st.lists(CALLS, max_size=4)))]
    return reply(draw(TEXT), draw(TEXT), calls, draw(st.sampled_from(["stop", "length"])))


@st.composite
def pieces(draw: st.DrawFn, text: str) -> list[str]:
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=6)))
    parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    return [p for p in parts if p]


@st.composite
def cut(draw: st.DrawFn) -> tuple[Reply, list[Delta]]:
    """A reply and increments that add up to it; some hold the end of one thing and the beginning of the next."""
    whole = draw(replies())
    increments = [Delta(reasoning=p) for p in draw(pieces(whole.reasoning))]
    increments += [Delta(content=p) for p in draw(pieces(whole.content))]
    for i, call in enumerate(whole.tool_calls):
        first, *rest = draw(pieces(call.arguments)) or [""]
        increments.append(Delta(tools=(ToolDelta(i, call.id, call.name, first),)))
        increments += [Delta(tools=(ToolDelta(i, arguments=p),)) for p in rest]
    joined: list[Delta] = []
    for delta in increments:
        if draw(st.booleans()) and joined:
            last = joined.pop()
            delta = Delta(last.reasoning + delta.reasoning, last.content + delta.content, last.tools + delta.tools)
        joined.append(delta)
    return whole, joined


def as_message(whole: Reply) -> dict[str, Any]:
    calls = [{"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}} for c in whole.tool_calls]
    optional = {"reasoning": whole.reasoning, "tool_calls": calls}
    return {"role": "assistant", "content": whole.content} | {k: v for k, v in optional.items() if v}


def canonical(message: dict[str, Any]) -> dict[str, Any]:
    """With arguments as JSON where they are: those of custom tools and searches are written anew."""
    for call in message.get("tool_calls", ()):
        try:
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        except ValueError:
            continue
    return message


def final_text(item: dict[str, Any]) -> str:
    """What increments of an item must add up to; a search has none."""
    texts: dict[str, str] = {
        "function_call": item.get("arguments", ""),
        "custom_tool_call": item.get("input", ""),
        "tool_search_call": "",
    }
    return texts[item["type"]] if item["type"] in texts else str(item["content"][0]["text"])


@given(cut())
def test_any_split_adds_up_to_the_whole(case: tuple[Reply, list[Delta]]) -> None:
    whole, increments = case
    done = assemble(streamed(TURN, increments, whole))
    assert done.response == msgspec.json.decode(DIALECT.writer(TURN, "r-1", 1700000000).whole(whole))
    assert done.items == done.response["output"]
    assert done.texts == [final_text(i) for i in done.items]


@given(cut())
def test_a_reply_comes_back_as_one_message(case: tuple[Reply, list[Delta]]) -> None:
    whole, increments = case
    items = assemble(streamed(TURN, increments, whole)).items
    turn = read([{"role": "user", "content": "hi"}, *items], tools=TOOLS)
    expected = [canonical(as_message(whole))] if items else []
    assert [canonical(m) for m in messages(turn)[1:]] == expected


@given(TEXT.filter(bool), st.booleans())
def test_reasoning_comes_back_from_what_a_harness_returns_of_it(reasoning: str, sealed: bool) -> None:
    (item,) = assemble(streamed(TURN, [Delta(reasoning=reasoning)], reply(reasoning))).items
    del item["content"], item["id"]  # codex drops both; opencode returns the encrypted content only
    item["summary" if sealed else "encrypted_content"] = [] if sealed else None
    assert messages(read([item])) == [{"role": "assistant", "content": "", "reasoning": reasoning}]


@given(WRAPPED, st.data())
def test_wrapped_text_is_unwrapped_in_any_pieces(arguments: str, data: st.DataObject) -> None:
    unwrapper = Unwrapper()
    parts = data.draw(pieces(arguments))
    assert "".join(unwrapper.feed(p) for p in parts) == unwrap(arguments) == json.loads(arguments)["input"]


@given(TEXT)
def test_text_survives_wrapping(text: str) -> None:
    assert unwrap(wrap(text)) == text


@given(st.one_of(TEXT, st.builds(lambda a, b: a + b, WRAPPED, TEXT), WRAPPED.map(lambda w: w[:-1])), st.data())
def test_malformed_arguments_are_given_as_they_are(arguments: str, data: st.DataObject) -> None:
    unwrapper = Unwrapper()
    for part in data.draw(pieces(arguments)):
        unwrapper.feed(part)
    try:
        expected = json.loads(arguments)["input"]
    except (ValueError, KeyError, TypeError):
        expected = arguments
    assert unwrap(arguments) == expected
