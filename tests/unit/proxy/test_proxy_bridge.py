"""The delta between a reply and the next generation, on a small template."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from services.proxy.bridge import Declined, Frame, delta, frame_messages, stand_in
from services.proxy.known import Known
from shared.packing import digester
from tests.engine import bytes_tokenizer as tokenizer

Json = dict[str, Any]


def render(messages: list[msgspec.Raw], **kwargs: Any) -> list[int]:
    return tokenizer.render([json.loads(bytes(m)) for m in messages], **kwargs)


def frame() -> Frame:
    opened = render(frame_messages())
    return Frame(opened[: -len([tokenizer.START, *tokenizer.encode("assistant\n")])], opened)


def known(stop: int | None, *tools: str) -> Known:
    return Known(1, None, 0, b"", b"", digester(), stop, tuple((f"id{i}", name) for i, name in enumerate(tools)))


def raw(*messages: Json) -> list[msgspec.Raw]:
    return [msgspec.Raw(json.dumps(m).encode()) for m in messages]


NEW = [
    raw({"role": "user", "content": "go on"}),
    raw({"role": "tool", "tool_call_id": "id0", "content": "a"}, {"role": "tool", "tool_call_id": "id1", "content": "b"}),
    raw({"role": "assistant", "content": "said by the harness"}, {"role": "user", "content": "more"}),
]


@pytest.mark.parametrize("new", NEW)
@pytest.mark.parametrize("tools", [(), ("bash", "sh")])
def test_parent_and_delta_are_what_the_template_would_render(new: list[msgspec.Raw], tools: tuple[str, ...]) -> None:
    parent = known(tokenizer.END, *tools)
    first: list[Json] = [{"role": "system", "content": "be good"}, {"role": "user", "content": "first"}]
    calls = [{"id": i, "function": {"name": n, "arguments": '{"x": 1}'}} for i, n in parent.tools]
    said: Json = {"role": "assistant", "content": "hm"} | ({"tool_calls": calls} if calls else {})
    full = tokenizer.render(first)
    full += [*tokenizer.encode("hm" + "".join(map(tokenizer.markup, calls))), tokenizer.END]
    added = delta(frame(), render(stand_in(parent, new)), parent.stop, set())
    assert full + added == tokenizer.render([*first, said, *(json.loads(bytes(m)) for m in new)])


def test_a_reply_that_was_cut_short_is_closed_by_the_delta() -> None:
    added = delta(frame(), render(stand_in(known(None), NEW[0])), None, {tokenizer.END})
    assert added[0] == tokenizer.END
    assert added[1:] == delta(frame(), render(stand_in(known(tokenizer.END), NEW[0])), tokenizer.END, set())


@pytest.mark.parametrize(("stop", "stops"), [(7, set()), (7, {tokenizer.END}), (None, set())])
def test_a_template_that_ends_turns_otherwise_is_not_spliced(stop: int | None, stops: set[int]) -> None:
    with pytest.raises(Declined, match="stop_mismatch"):
        delta(frame(), render(stand_in(known(stop), NEW[0])), stop, stops)


def test_a_template_that_changes_what_came_before_is_not_spliced() -> None:
    rendered = [tokenizer.START, *render(stand_in(known(tokenizer.END), NEW[0]))]
    with pytest.raises(Declined, match="template_moves"):
        delta(frame(), rendered, tokenizer.END, set())
