"""Events come out the same however the network cut the bytes."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from services.proxy.answer import Answer
from services.proxy.dialects.base import ToolCall
from services.proxy.sse import SseSplitter, event_data
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
        for event in splitter.feed(piece):
            if data := event_data(event):
                answer.add(data)
            joined += event
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
    assert [e for piece in pieces for e in splitter.feed(piece)] == [event]
    assert splitter.rest == b""


def test_event_data_joins_data_lines_and_ignores_the_rest() -> None:
    assert event_data(b"event: x\r\ndata: a\r\ndata:b\r\n\r\n") == b"a\nb"
    assert event_data(b": ping\n\n") == b""
