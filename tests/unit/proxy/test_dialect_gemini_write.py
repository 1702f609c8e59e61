"""Replies in Gemini's words: chunks, and that a client gets all of a reply whatever way it was streamed."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from services.proxy.dialects.base import Delta, Reply, Target, ToolCall, ToolDelta, Usage
from services.proxy.dialects.gemini import Gemini
from services.proxy.dialects.gemini_writer import GeminiWriter
from services.proxy.errors import Refused
from tests.unit.proxy.dialect_replies import assistant, read_back, streamed

DIALECT = Gemini()
ASK = {"role": "user", "parts": [{"text": "hi"}]}
STREAM = Target("/v1beta/models/m:streamGenerateContent", "alt=sse")


def writer(target: Target = STREAM) -> GeminiWriter:
    return DIALECT.writer(DIALECT.read(json.dumps({"contents": [ASK]}).encode(), target), "r-1", 1700000000)


def chunks(sent: bytes) -> list[dict[str, Any]]:
    return [json.loads(event.removeprefix("data: ")) for event in sent.decode().split("\r\n") if event]


def stream(reply: Reply, deltas: list[Delta]) -> list[dict[str, Any]]:
    to = writer()
    return chunks(to.start(reply.usage.prompt) + b"".join(to.add(delta) for delta in deltas) + to.finish(reply))


def assembled(stream: list[dict[str, Any]]) -> dict[str, Any]:
    """The response that Gemini CLI puts together: texts of a kind in one part, thoughts before them, and the last chunk."""
    parts = [part for chunk in stream for part in chunk["candidates"][0]["content"]["parts"]]
    thought = "".join(part["text"] for part in parts if part.get("thought"))
    text = "".join(part["text"] for part in parts if "text" in part and not part.get("thought"))
    whole = [{"text": thought, "thought": True}] * bool(thought) + [{"text": text}] * bool(text)
    whole += [part for part in parts if "functionCall" in part]
    return stream[-1] | {"candidates": [stream[-1]["candidates"][0] | {"content": {"role": "model", "parts": whole}}]}


def test_a_chunk_is_one_line_whatever_blanks_the_model_put_into_arguments() -> None:
    reply = Reply("", "", [ToolCall("c1", "shell", '{\n "a": 1\r\n}')], "tool_calls", Usage(9, 4, 3))
    (line,) = writer().finish(reply).splitlines()[:-1]
    assert json.loads(line.removeprefix(b"data: "))["candidates"][0]["content"]["parts"][0]["functionCall"]["args"] == {"a": 1}


def test_chunks() -> None:
    reply = Reply("hm", "I will.", [ToolCall("c1", "shell", '{"a" : 1}')], "tool_calls", Usage(9, 4, 3))
    deltas = [Delta("hm", "I "), Delta(content="will."), Delta(tools=(ToolDelta(0, "c1", "shell", '{"a" : 1}'),))]

    def chunk(*parts: dict[str, Any], **end: Any) -> dict[str, Any]:
        candidate = {"content": {"parts": list(parts), "role": "model"}, "index": 0} | end
        return {"candidates": [candidate], "modelVersion": "m", "responseId": "r-1"}

    usage = {"promptTokenCount": 9, "candidatesTokenCount": 4, "totalTokenCount": 13, "cachedContentTokenCount": 3}
    assert stream(reply, deltas) == [
        chunk({"text": "hm", "thought": True}),
        chunk({"text": "I "}),
        chunk({"text": "will."}),
        chunk({"functionCall": {"id": "c1", "name": "shell", "args": {"a": 1}}}, finishReason="STOP")
        | {"usageMetadata": usage},
    ]


@settings(deadline=None)
@given(streamed(interleaved=True))
def test_a_stream_amounts_to_the_whole_response(case: tuple[Reply, list[Delta]]) -> None:
    assert assembled(stream(*case)) == json.loads(writer().whole(case[0]))


@settings(deadline=None)
@given(streamed(interleaved=True))
def test_what_was_told_reads_back_as_the_reply(case: tuple[Reply, list[Delta]]) -> None:
    reply, _ = case
    content = json.loads(writer().whole(reply))["candidates"][0]["content"]
    turn = DIALECT.read(json.dumps({"contents": [content, ASK]}).encode(), STREAM)
    assert read_back(msgspec.json.decode(turn.messages[0])) == assistant(reply)


def test_no_chunk_has_an_empty_text() -> None:
    reply = Reply("", "", [], "stop", Usage(3, 1))
    assert [chunk["candidates"][0]["content"]["parts"] for chunk in stream(reply, [])] == [[]]
    assert writer().add(Delta(tools=(ToolDelta(0, "c1", "shell"),))) == b"\r\n"


def test_no_line_ends_within_an_event() -> None:
    event = writer().add(Delta(content="a\u2028b\u2029c\n"))
    assert len(event.decode().splitlines()) == 2
    assert chunks(event)[0]["candidates"][0]["content"]["parts"] == [{"text": "a\u2028b\u2029c\n"}]


@pytest.mark.parametrize(("finish", "reason"), [("stop", "STOP"), ("tool_calls", "STOP"), ("length", "MAX_TOKENS")])
def test_why_it_stopped(finish: str, reason: str) -> None:
    reply = Reply("", "x", [], finish, Usage(1, 1))
    assert stream(reply, [])[-1]["candidates"][0]["finishReason"] == reason


@pytest.mark.parametrize(
    ("arguments", "args"),
    [
        ("", {}),
        ('{"a": "é', {"__unparsedToolInput": {"raw": '{"a": "é', "len": 8}}),
        ("[1]", {"__unparsedToolInput": {"raw": "[1]", "len": 3}}),
        ('{"a": 1}}', {"__unparsedToolInput": {"raw": '{"a": 1}}', "len": 9}}),
    ],
)
def test_malformed_arguments_reach_the_harness(arguments: str, args: dict[str, Any]) -> None:
    reply = Reply("", "", [ToolCall("c1", "shell", arguments)], "tool_calls", Usage(1, 1))
    assert stream(reply, [])[-1]["candidates"][0]["content"]["parts"][0]["functionCall"]["args"] == args


def test_a_stream_without_events_is_an_array() -> None:
    reply = Reply("", "x", [], "stop", Usage(1, 1))
    array = writer(Target("/v1beta/models/m:streamGenerateContent")).whole(reply)
    assert json.loads(array) == [json.loads(writer(Target("/v1beta/models/m:generateContent")).whole(reply))]


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (400, "INVALID_ARGUMENT"),
        (401, "UNAUTHENTICATED"),
        (403, "PERMISSION_DENIED"),
        (404, "NOT_FOUND"),
        (410, "FAILED_PRECONDITION"),
        (429, "RESOURCE_EXHAUSTED"),
        (500, "INTERNAL"),
        (503, "UNAVAILABLE"),
    ],
)
def test_errors(status: int, name: str) -> None:
    error = Refused(status, "why", "no")
    body = {"error": {"code": status, "message": "no", "status": name}}
    assert json.loads(DIALECT.error(error)) == body
    assert json.loads(DIALECT.error_event(error)) == body


def test_counted() -> None:
    assert json.loads(DIALECT.counted(12)) == {"totalTokens": 12}
