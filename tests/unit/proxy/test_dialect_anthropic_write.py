"""Replies in Anthropic's words: the order of events, and that a client gets all of a reply whatever way it was streamed."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from services.proxy.dialects.anthropic import AnthropicMessages
from services.proxy.dialects.anthropic_writer import MessagesWriter
from services.proxy.dialects.base import Delta, Reply, Target, ToolCall, ToolDelta, Turn, Usage
from services.proxy.errors import Refused
from tests.unit.proxy.dialect_replies import assistant, read_back, said, streamed

DIALECT = AnthropicMessages()

CALLS = [ToolCall("c1", "Bash", '{"a":1}'), ToolCall("c2", "Bash", "{}")]
ORDERLY = (
    Reply("hm", "I will.", CALLS, "tool_calls", Usage(9, 4, 3)),
    [
        Delta(reasoning="h"),
        Delta(reasoning="m", content="I "),
        Delta(content="will."),
        Delta(tools=(ToolDelta(0, "c1", "Bash"),)),
        Delta(tools=(ToolDelta(0, arguments='{"a"'),)),
        Delta(tools=(ToolDelta(0, arguments=":1}"), ToolDelta(1, "c2", "Bash", "{}"))),
    ],
)


def writer() -> MessagesWriter:
    return DIALECT.writer(Turn("m", [], {}), "r-1", 1700000000)


def events(sent: bytes) -> list[dict[str, Any]]:
    """The data of server-sent events, each of which names its own type."""
    out = []
    for event in sent.decode().split("\n\n")[:-1]:
        name, data = event.split("\n")
        out.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {out[-1]['type']}"
    return out


def stream(reply: Reply, deltas: list[Delta]) -> list[dict[str, Any]]:
    to = writer()
    return events(to.start(reply.usage.prompt) + b"".join(to.add(delta) for delta in deltas) + to.finish(reply))


def assembled(stream: list[dict[str, Any]]) -> dict[str, Any]:
    """The message that a client puts together from a stream; asserts that the events come in the one order allowed."""
    message: dict[str, Any] = stream[0]["message"]
    buffers, is_open = list[str](), False
    for event in stream[1:-2]:
        at = event["index"]
        if event["type"] == "content_block_start":
            assert not is_open
            assert at == len(message["content"])
            message["content"].append(event["content_block"])
            buffers.append("")
        elif event["type"] == "content_block_delta":
            assert is_open
            assert at == len(buffers) - 1
            kind, value = event["delta"].pop("type"), event["delta"].popitem()
            if kind == "input_json_delta":
                buffers[-1] += value[1]
            else:
                message["content"][-1][value[0]] += value[1]
        is_open = event["type"] != "content_block_stop"
    assert not is_open
    assert [event["type"] for event in stream[-2:]] == ["message_delta", "message_stop"]
    inputs = zip(message["content"], buffers, strict=True)
    content = [block | {"input": buffer} if block["type"] == "tool_use" else block for block, buffer in inputs]
    return {**message, **stream[-2]["delta"], "usage": stream[-2]["usage"], "content": content}


def test_order_of_events() -> None:
    usage = {"input_tokens": 9, "output_tokens": 0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    message = {"id": "msg_r-1", "type": "message", "role": "assistant", "model": "m", "content": []}

    def begin(index: int, block: dict[str, Any]) -> dict[str, Any]:
        return {"type": "content_block_start", "index": index, "content_block": block}

    def more(index: int, kind: str, **delta: str) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": index, "delta": {"type": kind} | delta}

    def stop(index: int) -> dict[str, Any]:
        return {"type": "content_block_stop", "index": index}

    assert stream(*ORDERLY) == [
        {"type": "message_start", "message": message | {"usage": usage, "stop_reason": None, "stop_sequence": None}},
        begin(0, {"type": "thinking", "thinking": "", "signature": ""}),
        more(0, "thinking_delta", thinking="h"),
        more(0, "thinking_delta", thinking="m"),
        more(0, "signature_delta", signature="ci0x"),
        stop(0),
        begin(1, {"type": "text", "text": ""}),
        more(1, "text_delta", text="I "),
        more(1, "text_delta", text="will."),
        stop(1),
        begin(2, {"type": "tool_use", "id": "c1", "name": "Bash", "input": {}}),
        more(2, "input_json_delta", partial_json='{"a"'),
        more(2, "input_json_delta", partial_json=":1}"),
        stop(2),
        begin(3, {"type": "tool_use", "id": "c2", "name": "Bash", "input": {}}),
        more(3, "input_json_delta", partial_json="{}"),
        stop(3),
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use", "stop_sequence": None},
            "usage": usage | {"output_tokens": 4},
        },
        {"type": "message_stop"},
    ]


def test_a_second_call_is_streamed_once_the_first_is_whole() -> None:
    to = writer()
    to.add(Delta(tools=(ToolDelta(0, "c1", "Bash", '{"a":1}'),)))
    assert b'"partial_json":"{"' in to.add(Delta(tools=(ToolDelta(1, "c2", "Bash", "{"),)))


def test_what_comes_amid_a_call_waits_for_the_end() -> None:
    reply = Reply("", "ab", CALLS, "tool_calls", Usage(9, 4))
    to = writer()
    to.add(Delta(content="a", tools=(ToolDelta(0, "c1", "Bash", '{"a"'),)))
    assert to.add(Delta(content="b", tools=(ToolDelta(1, "c2", "Bash"),))) == b""
    assert [e["type"] for e in events(to.add(Delta(tools=(ToolDelta(0, arguments=":1}"),))))] == ["content_block_delta"]
    assert to.add(Delta(tools=(ToolDelta(1, arguments="{}"),))) == b""
    blocks = [e["content_block"]["type"] for e in events(to.finish(reply)) if e["type"] == "content_block_start"]
    assert blocks == ["text", "tool_use"]


@settings(deadline=None)
@given(streamed(interleaved=False))
def test_a_stream_amounts_to_the_whole_message(case: tuple[Reply, list[Delta]]) -> None:
    reply, deltas = case
    whole = json.loads(writer().whole(reply))
    got = assembled(stream(reply, deltas))
    sent = [call.arguments for call in reply.tool_calls]
    assert [block.pop("input") for block in got["content"] if "input" in block] == sent
    inputs = [block.pop("input") for block in whole["content"] if "input" in block]
    assert [inputs[i] == said(text) for i, text in enumerate(sent)] == [isinstance(said(text), dict) for text in sent]
    assert got == whole


@settings(deadline=None)
@given(streamed(interleaved=True))
def test_no_order_of_increments_loses_anything(case: tuple[Reply, list[Delta]]) -> None:
    reply, deltas = case
    blocks = assembled(stream(reply, deltas))["content"]
    assert "".join(b["thinking"] for b in blocks if b["type"] == "thinking") == reply.reasoning
    assert "".join(b["text"] for b in blocks if b["type"] == "text") == reply.content
    calls = {b["id"]: said(b["input"]) for b in blocks if b["type"] == "tool_use"}
    assert calls == {call.id: said(call.arguments) for call in reply.tool_calls}


@settings(deadline=None)
@given(streamed(interleaved=True))
def test_what_was_told_reads_back_as_the_reply(case: tuple[Reply, list[Delta]]) -> None:
    reply, _ = case
    history = [
        {"role": "assistant", "content": json.loads(writer().whole(reply))["content"]},
        {"role": "user", "content": "on"},
    ]
    turn = DIALECT.read(json.dumps({"model": "m", "messages": history}).encode(), Target("/v1/messages"))
    assert read_back(msgspec.json.decode(turn.messages[0])) == assistant(reply)


@pytest.mark.real
def test_anthropics_own_client_takes_every_event() -> None:
    types = pytest.importorskip("anthropic.types")
    pydantic = pytest.importorskip("pydantic")
    event_type = pydantic.TypeAdapter(types.RawMessageStreamEvent)
    for reply, deltas in [ORDERLY, (Reply("", "", [], "stop", Usage(3, 1)), list[Delta]())]:
        for event in stream(reply, deltas):
            event_type.validate_python(event, strict=True)
        types.Message.model_validate_json(writer().whole(reply), strict=True)


@pytest.mark.parametrize(
    ("calls", "finish", "stop_sequence", "reason"),
    [
        ([], "stop", None, "end_turn"),
        ([], "stop", "END", "stop_sequence"),
        ([], "length", None, "max_tokens"),
        ([ToolCall("c", "n", "{}")], "tool_calls", None, "tool_use"),
        ([ToolCall("c", "n", "{}")], "stop", None, "tool_use"),
        ([ToolCall("c", "n", "{")], "length", None, "max_tokens"),
        ([], "tool_calls", None, "end_turn"),
    ],
)
def test_why_it_stopped(calls: list[ToolCall], finish: str, stop_sequence: str | None, reason: str) -> None:
    reply = Reply("", "", calls, finish, Usage(1, 1), stop_sequence)
    whole = json.loads(writer().whole(reply))
    assert (whole["stop_reason"], whole["stop_sequence"]) == (reason, stop_sequence)
    assert stream(reply, [])[-2]["delta"] == {"stop_reason": reason, "stop_sequence": stop_sequence}


def test_an_empty_reply_has_no_blocks() -> None:
    reply = Reply("", "", [], "stop", Usage(3, 1))
    assert [event["type"] for event in stream(reply, [])] == ["message_start", "message_delta", "message_stop"]
    assert json.loads(writer().whole(reply))["content"] == []


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (409, "invalid_request_error"),
        (413, "request_too_large"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (502, "api_error"),
        (503, "overloaded_error"),
        (529, "overloaded_error"),
    ],
)
def test_errors(status: int, kind: str) -> None:
    error = Refused(status, "why", "no")
    body = {"type": "error", "error": {"type": kind, "message": "no"}, "request_id": None}
    assert json.loads(DIALECT.error(error)) == body
    assert events(DIALECT.error_event(error)) == [body]


def test_a_context_overflow_begins_with_the_words_that_harnesses_look_for() -> None:
    words = "This model's maximum context length is 8192 tokens."
    error = json.loads(DIALECT.error(Refused(400, "context_length_exceeded", words)))["error"]
    assert error == {"type": "invalid_request_error", "message": f"prompt is too long: {words}"}


def test_counted() -> None:
    assert json.loads(DIALECT.counted(12)) == {"input_tokens": 12}
