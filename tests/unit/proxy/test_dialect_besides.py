"""Requests are taken apart alike, whatever was seen before."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.proxy.dialects.besides import Besides

LISTS = st.lists(st.sampled_from([1, "]", '"messages":[', {"messages": []}, []]), max_size=3)
REST = st.dictionaries(
    st.sampled_from(["a", "messages ", "z"]), LISTS | st.sampled_from([0, "x", {"messages": [1]}]), max_size=3
).map(lambda rest: list(rest.items()))
BODIES = st.builds(
    lambda rest, at, messages, blank: json.dumps(
        dict([*rest[:at], ("messages", messages), *rest[at:]]), separators=(",", ":" + blank)
    ).encode(),
    REST, st.integers(0, 3), LISTS, st.sampled_from(["", " "]),
)  # fmt: skip


def split(raw: bytes) -> list[msgspec.Raw]:
    try:
        return msgspec.json.decode(raw, type=list[msgspec.Raw])
    except msgspec.ValidationError:
        raise TypeError from None


def taking(read: Callable[[bytes], Any] = json.loads) -> Besides[Any]:
    return Besides("messages", split, read)


@settings(max_examples=60, deadline=None)
@given(st.lists(BODIES, max_size=8))
def test_a_request_is_what_it_says_whatever_came_before(bodies: list[bytes]) -> None:
    take = taking()
    for body in [*bodies, *bodies]:
        parts, meant = take(body), json.loads(body)
        assert [json.loads(bytes(item)) for item in parts.items] == json.loads(parts.raw) == meant.pop("messages")
        assert parts.besides == meant


def test_what_stands_besides_is_read_once() -> None:
    read: list[bytes] = []
    take = taking(lambda rest: read.append(rest) or len(read))  # type: ignore[func-returns-value]
    told = [take(b'{"a":1,"messages":[%d],"z":[2]}' % n).besides for n in range(3)]
    assert (told, read) == ([1, 1, 1], [b'{"a":1,"z":[2]}'])


def test_of_two_lists_of_one_name_the_last_counts_as_ever() -> None:
    take = taking()
    for _ in range(2):
        parts = take(b'{"messages":[1],"messages":[2]}')
        assert (parts.raw, parts.besides) == (b"[2]", {})
        assert take(b'{"messages":[3],"messages":[2]}').raw == b"[2]"


@pytest.mark.parametrize("body", [b'{"messages":[1]', b'{"messages":[1}', b'{"messages":[1],}', b'{"messages":[[1]}', b"[1]"])
def test_what_is_no_json_object_is_refused_whatever_came_before(body: bytes) -> None:
    take = taking()
    take(b'{"messages":[1]}')
    with pytest.raises(msgspec.DecodeError):
        take(body)


@pytest.mark.parametrize("body", [b'{"messages":3}', b"{}", b'{"messages":null}'])
def test_what_is_no_list_is_told(body: bytes) -> None:
    take = taking()
    take(b'{"messages":[1]}')
    with pytest.raises(TypeError):
        take(body)


def test_only_the_last_kinds_are_remembered() -> None:
    read: list[bytes] = []
    take = taking(lambda rest: read.append(rest))
    for n in [*range(40), 0, 39]:
        take(b'{"a":%d,"messages":[]}' % n)
    assert len(read) == 41
