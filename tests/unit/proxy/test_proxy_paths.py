"""Which messages are the same conversation, however a harness writes them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.proxy.dialects.base import Reply, ToolCall, Usage
from services.proxy.errors import Refused
from services.proxy.paths import after_reply, counted, nodes, start

Json = dict[str, Any]


def raw(message: Json) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(message).encode())


def call(arguments: str, name: str = "bash", call_id: str = "1") -> Json:
    function = {"name": name, "arguments": arguments}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": call_id, "type": "function", "function": function}]}


def text(role: str, content: Any, **more: Any) -> Json:
    return {"role": role, "content": content, **more}


SAME = [
    (text("user", "hi"), text("user", [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}])),
    (text("assistant", "\n\nhi\n"), text("assistant", "hi", reasoning="hm")),
    (text("assistant", ""), text("assistant", None)),
    (call('{"a": 1.0, "b": "\\u00e4"}'), call('{"b":"ä","a":1}', call_id="2")),
    (call("{broken "), call("{broken")),
    (call(""), call("{}")),
    (call('{"b": 1e999, "a": 123456789012345678901234567890}'), call('{"a":123456789012345678901234567890,"b":1e999}')),
    (call('{"a":' + "[" * 300 + "]" * 300 + "}"), call('{"a": ' + "[" * 300 + "]" * 300 + "} ")),
    (call("[" * 100_000), call(" " + "[" * 100_000)),
]
DIFFERENT = [
    (text("user", "hi"), text("user", "hi ")),
    (text("user", "hi"), text("tool", "hi")),
    (text("user", "ab"), text("user", [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])),
    (call('{"a": 1}'), call('{"a": 2}')),
    (call('{"a": 1}'), call('{"a": 1}', name="sh")),
    (call("{broken"), call("{}")),
    (call('{"a": true}'), call('{"a": 1}')),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), SAME)
def test_what_the_model_would_read_alike_is_the_same(one: Json, other: Json) -> None:
    assert counted(raw(one)) == counted(raw(other))


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_what_it_would_read_otherwise_is_not(one: Json, other: Json) -> None:
    assert counted(raw(one)) != counted(raw(other))


@given(st.text(), st.lists(st.tuples(st.text(), st.text()), max_size=2))
def test_a_reply_that_is_sent_back_is_on_its_own_path(content: str, tools: list[tuple[str, str]]) -> None:
    calls = [ToolCall(str(i), name, arguments) for i, (name, arguments) in enumerate(tools)]
    reply = Reply("", content, calls, "stop", Usage(1, 1))
    begin = start({})
    back = text("assistant", content)
    if calls:
        back["tool_calls"] = [{"id": c.id, "function": {"name": c.name, "arguments": c.arguments}} for c in calls]
    assert nodes(begin, [raw(back)]) == [after_reply(begin, reply)]


@pytest.mark.parametrize("value", [10**30, json.loads("[" * 300 + "]" * 300)])
def test_parts_may_hold_any_json(value: Any) -> None:
    part, more = {"type": "odd", "value": value}, {"type": "odd", "value": [value]}
    assert counted(raw(text("user", [part]))) != counted(raw(text("user", [more])))


def test_a_message_that_is_nested_too_deeply_is_refused() -> None:
    deep = b'{"role": "user", "content": [{"type": "odd", "value": ' + b"[" * 50_000 + b"]" * 50_000 + b"}]}"
    with pytest.raises(Refused, match="nested too deeply"):
        counted(msgspec.Raw(deep))


def test_other_tools_are_another_conversation() -> None:
    tools = {"tools": msgspec.Raw(b'[{"type":"function"}]')}
    assert start(tools) != start({})
    assert start(tools | {"temperature": msgspec.Raw(b"1")}) == start(tools)
