"""Replies as the Responses API words them: order of events, items, errors."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from services.proxy.dialects.arguments import as_object
from services.proxy.dialects.base import Delta, ToolCall, ToolDelta
from services.proxy.errors import Refused, bad_request, unavailable
from tests.unit.proxy.responses_client import (
    AGENTS,
    DIALECT,
    PATCH,
    SEARCH,
    SHELL,
    assemble,
    deltas,
    events,
    read,
    reply,
    streamed,
)

TURN = read(tools=[SHELL, PATCH, AGENTS, SEARCH], tool_choice="auto", temperature=0.5, max_output_tokens=9)
FULL = reply(
    "hm",
    "I do.",
    [ToolCall("c1", "shell", '{"cmd":"ls"}'), ToolCall("c2", "apply_patch", '{"input": "*** Begin\\n"}')],
    "tool_calls",
)


def test_events_come_in_the_order_that_clients_demand() -> None:
    kinds = [e["type"].removeprefix("response.") for e in events(streamed(TURN, deltas(FULL), FULL))]
    assert kinds == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "reasoning_text.delta",
        "reasoning_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "output_item.added",
        "custom_tool_call_input.delta",
        "custom_tool_call_input.done",
        "output_item.done",
        "completed",
    ]


def test_the_response_holds_all_of_the_reply() -> None:
    response = assemble(streamed(TURN, deltas(FULL), FULL)).response
    reasoning, message, call, custom = response["output"]
    assert reasoning["content"] == [{"type": "reasoning_text", "text": "hm"}]
    assert reasoning["summary"] == [{"type": "summary_text", "text": "hm"}]
    assert message["content"] == [{"type": "output_text", "text": "I do.", "annotations": [], "logprobs": []}]
    assert call == {
        "type": "function_call", "id": "fc_r-1_2", "call_id": "c1", "name": "shell", "arguments": '{"cmd":"ls"}',
        "status": "completed",
    }  # fmt: skip
    assert custom == {
        "type": "custom_tool_call", "id": "ctc_r-1_3", "call_id": "c2", "name": "apply_patch", "input": "*** Begin\n",
        "status": "completed",
    }  # fmt: skip
    assert response["usage"] == {
        "input_tokens": 11,
        "output_tokens": 5,
        "total_tokens": 16,
        "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    asked = {name: response[name] for name in ("id", "created_at", "model", "temperature", "max_output_tokens", "status")}
    assert asked == {
        "id": "resp_r-1", "created_at": 1700000000, "model": "m", "temperature": 0.5, "max_output_tokens": 9,
        "status": "completed",
    }  # fmt: skip


def test_a_stream_begins_with_a_response_that_has_nothing_yet() -> None:
    created, in_progress, *_ = events(streamed(TURN, [], reply()))
    assert created["response"] == in_progress["response"]
    assert (created["response"]["status"], created["response"]["output"]) == ("in_progress", [])
    assert created["response"]["usage"] is None


def test_an_empty_reply_is_a_response_without_items() -> None:
    done = assemble(streamed(TURN, [], reply()))
    assert (done.items, done.response["output"], done.response["status"]) == ([], [], "completed")


def test_a_tool_in_a_namespace_gets_its_namespace_back() -> None:
    whole = reply(calls=[ToolCall("c1", "agents__spawn", "{}")])
    for event in events(streamed(TURN, deltas(whole), whole)):
        if "item" in event:
            assert (event["item"]["name"], event["item"]["namespace"]) == ("spawn", "agents")


def test_a_tool_that_was_not_offered_is_a_function_call_all_the_same() -> None:
    whole = reply(calls=[ToolCall("c1", "no_such_tool", "{}")])
    (item,) = assemble(streamed(TURN, deltas(whole), whole)).items
    assert (item["type"], item["name"], "namespace" in item) == ("function_call", "no_such_tool", False)


def test_a_reply_that_ran_out_of_tokens_is_incomplete_and_so_is_its_last_item() -> None:
    whole = reply("hm", "I d", finish_reason="length")
    *_, last = events(streamed(TURN, deltas(whole), whole))
    assert last["type"] == "response.incomplete"
    assert last["response"]["status"] == "incomplete"
    assert last["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
    assert [i["status"] for i in last["response"]["output"]] == ["completed", "incomplete"]


def test_content_after_a_call_is_a_second_message() -> None:
    whole = reply("", "ab", [ToolCall("c1", "shell", "{}")], "tool_calls")
    increments = [Delta(content="a"), Delta(tools=(ToolDelta(0, "c1", "shell", "{}"),)), Delta(content="b")]
    done = assemble(streamed(TURN, increments, whole))
    assert [i["type"] for i in done.items] == ["message", "function_call", "message"]
    assert done.texts == ["a", "{}", "b"]


@pytest.mark.parametrize(
    ("between", "late"),
    [
        (Delta(tools=(ToolDelta(1, "c2", "shell", "{"),)), ToolDelta(0, arguments="}")),
        (Delta(content="and"), ToolDelta(0, arguments="}")),
    ],
)
def test_an_engine_that_goes_back_to_an_ended_call_is_refused(between: Delta, late: ToolDelta) -> None:
    writer = DIALECT.writer(TURN, "r-1", 0)
    writer.add(Delta(tools=(ToolDelta(0, "c1", "shell", "{"),)))
    writer.add(between)
    with pytest.raises(Refused, match="went back"):
        writer.add(Delta(tools=(late,)))


def test_arguments_that_are_no_wrapped_text_reach_a_custom_tool_as_they_are() -> None:
    for arguments in ('{"input": "*** Begin', '{"patch": "x"}', '{"input": "x", "y": 1}', "*** Begin", '{"input": 5}', ""):
        whole = reply(calls=[ToolCall("c1", "apply_patch", arguments)])
        (item,) = assemble(streamed(TURN, deltas(whole), whole)).items
        assert item["input"] == arguments


@pytest.mark.parametrize("arguments", ['{\n "query": "x"\n}', '{"query', "[1]"])
def test_a_search_for_tools_gives_its_arguments_as_an_object(arguments: str) -> None:
    whole = reply(calls=[ToolCall("c1", "tool_search", arguments)])
    (item,) = assemble(streamed(TURN, deltas(whole), whole)).items
    assert item == {
        "type": "tool_search_call", "id": "tsc_r-1_0", "call_id": "c1", "execution": "client", "status": "completed",
        "arguments": msgspec.json.decode(as_object(arguments)),
    }  # fmt: skip


def test_text_of_a_custom_tool_comes_as_it_is_written() -> None:
    writer = DIALECT.writer(TURN, "r-1", 0)
    writer.add(Delta(tools=(ToolDelta(0, "c1", "apply_patch"),)))
    pieces = ['{"in', 'put"', ': "', "*** ", "B\\", 'n\\"', "\\u00", "e9\\ud83d", '\\ude00"', "}"]
    given = [writer.add(Delta(tools=(ToolDelta(0, arguments=p),))) for p in pieces]
    found = [msgspec.json.decode(g.split(b"data: ")[1])["delta"] if g else "" for g in given]
    assert found == ["", "", "", "*** ", "B", '\n"', "", "é", "😀", ""]


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (bad_request("no"), "invalid_request_error", "invalid_request"),
        (unavailable("down"), "server_error", "unavailable"),
        (Refused(400, "context_length_exceeded", "too long"), "invalid_request_error", "context_length_exceeded"),
    ],
)
def test_error_bodies(error: Refused, kind: str, code: str) -> None:
    body = msgspec.json.decode(DIALECT.error(error))
    assert body == {"error": {"message": str(error), "type": kind, "param": None, "code": code}}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Refused(400, "context_length_exceeded", "too long"), "context_length_exceeded"),  # codex says that its context is full
        (unavailable("updating"), "server_error"),  # codex tries again
        (Refused(429, "busy", "later"), "rate_limit_exceeded"),  # codex tries again
        (bad_request("no"), "invalid_prompt"),  # codex gives up
    ],
)
def test_errors_in_a_stream_say_whether_to_try_again(error: Refused, code: str) -> None:
    (event,) = events(DIALECT.error_event(error))
    response: dict[str, Any] = event["response"]
    assert (event["type"], response["status"]) == ("response.failed", "failed")
    assert response["error"] == {"code": code, "message": str(error)}
