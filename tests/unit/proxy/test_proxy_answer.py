"""Replies that cannot be recorded exactly are turned down."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.proxy.answer import Answer
from services.proxy.dialects.base import Reply, Usage
from services.proxy.errors import Refused
from services.proxy.sse import data_of
from shared.errors import FidelityError


def whole(**changes: Any) -> bytes:
    choice = {
        "message": {"role": "assistant", "content": "ok", "reasoning": "hm"}, "finish_reason": "stop", "token_ids": [5, 6],
        "logprobs": {"content": [{"logprob": -0.5}, {"logprob": -1.5}]},
    }  # fmt: skip
    return json.dumps({"choices": [choice | changes], "prompt_token_ids": [1, 2, 3]}).encode()


def test_a_whole_reply_is_read() -> None:
    answer = Answer()
    answer.add_whole(whole())
    answer.check()
    assert (answer.prompt, answer.prompt_length) == (b"[1,2,3]", 3)
    assert (answer.completion, answer.logprobs, answer.finish_reason) == ([5, 6], [-0.5, -1.5], "stop")
    assert answer.reply == Reply("hm", "ok", [], "stop", Usage(3, 2))


@pytest.mark.parametrize("after", [{}, {"kv_transfer_params": None}, {"metrics": [1, 2]}, {"note": '"prompt_token_ids":[7'}])
def test_the_prompt_is_found_wherever_it_stands(after: dict[str, Any]) -> None:
    reply, answer = json.loads(whole()) | after, Answer()
    answer.add_whole(orjson.dumps(reply))
    assert (answer.prompt, answer.completion) == (b"[1,2,3]", [5, 6])


@pytest.mark.parametrize(
    "changes",
    [
        {"token_ids": [5]},
        {"token_ids": None},
        {"logprobs": None},
        {"logprobs": {"content": [{"logprob": -0.5}]}},
        {"logprobs": {"content": [{"logprob": -0.5}, {"logprob": -1e300}]}},
    ],
)
def test_ids_and_logprobs_that_do_not_pair_up_are_not_recorded(changes: dict[str, Any]) -> None:
    answer = Answer()
    answer.add_whole(whole(**changes))
    with pytest.raises(FidelityError):
        answer.check()


@pytest.mark.parametrize(
    "changes",
    [
        {"token_ids": [5, "6"]},
        {"logprobs": {"content": [{"logprob": None}, {"logprob": -1}]}},
        {"logprobs": {"content": [{"logprob": float("nan")}, {"logprob": -1}]}},
    ],
)
def test_values_out_of_range_cannot_be_read(changes: dict[str, Any]) -> None:
    with pytest.raises(FidelityError):
        Answer().add_whole(whole(**changes))


def test_a_reply_without_prompt_ids_is_not_recorded() -> None:
    with pytest.raises(FidelityError, match="prompt_token_ids"):
        Answer().check()


def test_a_reply_that_is_not_finished_is_refused() -> None:
    with pytest.raises(Refused, match="finish_reason"):
        Answer().add_whole(whole(finish_reason=None))


@pytest.mark.parametrize("error", [{"message": "out of memory"}, "out of memory"])
def test_an_error_inside_a_stream_keeps_the_engines_words(error: Any) -> None:
    with pytest.raises(Refused, match="out of memory"):
        Answer().add([json.dumps({"error": error}).encode()])


@pytest.mark.parametrize("data", [b"{", b"[" * 100_000, b'{"error":' + b"[" * 100_000])
def test_an_event_that_is_not_json_cannot_be_read(data: bytes) -> None:
    with pytest.raises(FidelityError):
        Answer().add([data])


@pytest.mark.parametrize("halves", [(b'{"choices":[],"x":[1', b"2]}"), (b'{"choices":[]},{"choices":[]}', b"")])
def test_events_are_read_one_by_one_even_where_they_would_make_json_together(halves: tuple[bytes, bytes]) -> None:
    with pytest.raises(FidelityError):
        Answer().add(list(filter(None, halves)))


def test_what_came_before_an_error_in_one_piece_with_it_counts() -> None:
    choice = {"delta": {"content": "ok"}, "token_ids": [5], "logprobs": {"content": [{"logprob": -0.5}]}}
    answer = Answer()
    with pytest.raises(Refused, match="out of memory"):
        answer.add([json.dumps({"choices": [choice]}).encode(), b'{"error":"out of memory"}'])
    assert (answer.completion, answer.logprobs, answer.reply.content) == ([5], [-0.5], "ok")


def event(**choice: Any) -> bytes:
    return b"data: " + json.dumps({"choices": [choice]}, separators=(",", ":")).encode() + b"\n\n"


SAID = event(delta={"content": "a}\n\ndata: {"}, token_ids=[5], logprobs={"content": [{"logprob": -0.5}]})
EVENTS = [
    SAID, SAID, SAID,
    event(delta={}, token_ids=[6], logprobs={"content": [{"logprob": -1}]}, finish_reason="stop"),
    b'data: {"choices":[],"prompt_token_ids":[1,2,3]}\n\n',
    b'data: {"choices":[],"usage":{"prompt_tokens":3}}\n\n',
    b"data: [DONE]\n\n", b": ping\n\n",
    b'event: x\r\ndata: {"choices":\r\ndata: []}\r\n\r\n', b'data: {"error":"full"}\n\n',
    b'data: {"choices":[\n\n',
    b"data: ]}\n\n", b'data: ]}{"choices":[]}\n\n', b"data: {} {}\n\n", b"data: 5\n\n", b"data: {}}\n\n",
    b'data: {"x":{}\n\n', b'data: {"x":[{}\n\n', b"data: {}]}\n\n",
]  # fmt: skip


def told(events: bytes, *, together: bool) -> tuple[Any, ...]:
    answer, refused = Answer(), None
    try:
        said = answer.feed(events) if together else answer.add(data_of(events))
    except (Refused, FidelityError) as e:
        said, refused = [], type(e)
    prompt = None if refused else answer.prompt  # that came behind an error is nobody's
    counted = (answer.completion, answer.logprobs, answer.finish_reason, answer.closing)
    return prompt, counted, answer.reply.content, refused, repr(said)


@given(st.lists(st.sampled_from(EVENTS), max_size=6))
def test_events_that_came_together_say_what_they_say_one_by_one(events: list[bytes]) -> None:
    assert told(b"".join(events), together=True) == told(b"".join(events), together=False)
