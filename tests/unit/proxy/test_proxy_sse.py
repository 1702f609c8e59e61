"""Events come out the same however the network cut the bytes."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from services.proxy.answer import Answer
from services.proxy.dialects.base import ToolCall
from services.proxy.sse import SseSplitter, data_of, start_of_last
from tests.engine import bytes_tokenizer as tokenizer
from tests.engine.replies import Reply


def streamed(text: str, tool_calls: list[dict[str, Any]]) -> bytes:
    reply = Reply(1, "policy", tokenizer.render([{"role": "user", "content": "hi"}]), [], "stop", text, tool_calls)
    reply.completion = [*tokenizer.encode(text), *tokenizer.encode("".join(map(tokenizer.markup, tool_calls))), tokenizer.END]
    events = [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in reply.chunks()]
    return b": comment\r\n\r\n" + b"".join(events) + b"data: [DONE]\n\n"


def answer_of(pieces: list[bytes]) -> tuple[Answer, bytes]:
    splitter, answer, joined = SseSplitter(), Answer(), b""
    for piece in pieces:
        events = splitter.feed(piece)
        answer.add(data_of(events))
        joined += events
    return answer, joined + splitter.rest


CALL = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
STREAM = streamed("wörds\n\nand ☃ more", [CALL])


@given(st.lists(st.integers(0, len(STREAM)), max_size=40))
def test_any_split_of_a_stream_gives_the_same_answer_and_the_same_bytes(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    answer, joined = answer_of([STREAM[a:b] for a, b in pairwise(edges)])
    assert joined == STREAM
    assert answer == answer_of([STREAM])[0]


def test_a_stream_cut_into_single_bytes_gives_all_its_tokens() -> None:
    answer, joined = answer_of([STREAM[i : i + 1] for i in range(len(STREAM))])
    assert joined == STREAM
    answer.check()
    assert tokenizer.decode(json.loads(answer.prompt)).endswith("assistant\n")
    assert answer.reply.content == "wörds\n\nand ☃ more"
    assert answer.reply.tool_calls == [ToolCall("c1", "bash", '{"command": "ls"}')]
    assert answer.completion[-1] == tokenizer.END
    assert len(answer.completion) == len(answer.logprobs)


def test_an_event_of_megabytes_is_one_event() -> None:
    splitter, event = SseSplitter(), b"data: " + b"x" * 3_000_000 + b"\n\n"
    pieces = [event[i : i + 65536] for i in range(0, len(event), 65536)]
    assert list(filter(None, map(splitter.feed, pieces))) == [event]
    assert splitter.rest == b""


def test_the_data_of_events_is_their_data_lines_joined_whatever_else_they_hold() -> None:
    assert data_of(b"data: {}\n\ndata: [1]\n\ndata: [DONE]\n\n") == [b"{}", b"[1]"]
    assert data_of(b"event: x\r\ndata: a\r\ndata:b\r\n\r\n: ping\n\ndata: c\n\n") == [b"a\nb", b"c"]
    assert data_of(b": ping\n\n") == data_of(b"data: [DONE]\r\n\n") == data_of(b"") == []


EVENTS = st.lists(
    st.sampled_from([b"data: x", b"data:y", b"data: [DONE]", b"event: e\ndata: z", b"data: 1\ndata: 2", b": c", b""])
)


@given(EVENTS, st.sampled_from([b"\n\n", b"\n\r\n", b"\r\n\r\n"]))
def test_the_data_is_the_same_for_events_together_and_one_by_one(events: list[bytes], end: bytes) -> None:
    whole = [event.replace(b"\n", end[: end.index(b"\n") + 1]) + end for event in events]
    assert data_of(b"".join(whole)) == [data for event in whole for data in data_of(event)]


def edges(events: bytes) -> list[int]:
    return [blank.end() for blank in re.finditer(rb"\n\r?\n", events)]


@given(EVENTS, st.sampled_from([b"\n\n", b"\n\r\n", b"\r\n\r\n"]), st.integers(1, 5))
def test_the_last_events_with_data_are_found_among_others(events: list[bytes], end: bytes, count: int) -> None:
    whole = b"".join(event.replace(b"\n", end[: end.index(b"\n") + 1]) + end for event in events)
    start = start_of_last(whole, count)
    assert data_of(whole[start:]) == data_of(whole)[-count:]
    assert all(len(data_of(whole[at:])) < count for at in edges(whole) if at > start)
