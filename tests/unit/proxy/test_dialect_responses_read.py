"""Requests of the Responses API, as codex and other harnesses send them, in chat terms."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from services.proxy.dialects.arguments import as_object
from services.proxy.dialects.base import Target
from services.proxy.dialects.responses_sealed import seal
from services.proxy.errors import Refused
from tests.unit.proxy.responses_client import AGENTS, DIALECT, PATCH, PATH, SEARCH, SHELL, field, messages, read

IMAGE = "data:image/png;base64,iVBORw0KGgo="
SEEN = {"type": "image_url", "image_url": {"url": IMAGE}}


def text(role: str, *parts: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": p} for p in parts]}


def call(call_id: str, name: str, arguments: str, **more: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments, **more}


def output(call_id: str, value: Any, kind: str = "function_call_output") -> dict[str, Any]:
    return {"type": kind, "call_id": call_id, "output": value}


def called(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def test_the_request_of_codex_is_one_conversation() -> None:
    turn = read(
        [
            text("developer", "<permissions instructions>", "<skills>"),
            text("user", "<environment_context>"),
            text("user", "fix it"),
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "look"}], "encrypted_content": None},
            text("assistant", "Looking."),
            call("c1", "shell", '{ "cmd":"ls" }'),
            call("c2", "spawn", "{}", namespace="agents"),
            output("c1", "a.py\n"),
            output("c2", "done"),
            {"type": "custom_tool_call", "call_id": "c3", "name": "apply_patch", "input": '*** "Begin" Patch\n'},
            output("c3", "ok", "custom_tool_call_output"),
        ],
        instructions="You are a coding agent.",
        tools=[SHELL, PATCH, AGENTS, {"type": "web_search", "external_web_access": False}],
        tool_choice="auto",
        parallel_tool_calls=True,
        reasoning={"effort": "medium", "summary": "auto"},
        store=False,
        stream=True,
        include=["reasoning.encrypted_content"],
        prompt_cache_key="019-thread",
        text={"verbosity": "low"},
        client_metadata={"x-codex-installation-id": "1"},
    )  # fmt: skip
    assert messages(turn) == [
        {"role": "system", "content": "You are a coding agent."},
        {"role": "system", "content": "<permissions instructions>\n<skills>"},
        {"role": "user", "content": "<environment_context>"},
        {"role": "user", "content": "fix it"},
        {"role": "assistant", "content": "Looking.", "reasoning": "look", "tool_calls": [
            called("c1", "shell", '{ "cmd":"ls" }'), called("c2", "agents__spawn", "{}"),
        ]},
        {"role": "tool", "tool_call_id": "c1", "content": "a.py\n"},
        {"role": "tool", "tool_call_id": "c2", "content": "done"},
        {"role": "assistant", "content": "", "tool_calls": [
            called("c3", "apply_patch", '{"input":"*** \\"Begin\\" Patch\\n"}'),
        ]},
        {"role": "tool", "tool_call_id": "c3", "content": "ok"},
    ]  # fmt: skip
    assert [t["function"]["name"] for t in field(turn, "tools")] == ["shell", "apply_patch", "agents__spawn", "agents__wait"]
    assert (field(turn, "tool_choice"), field(turn, "parallel_tool_calls")) == ("auto", True)
    assert turn.requested == {"reasoning_effort": "medium", "verbosity": "low"}
    assert (turn.model, turn.stream, turn.constrained, turn.max_tokens, turn.media) == ("m", True, False, None, False)


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ("hello", [{"role": "user", "content": "hello"}]),
        ([{"role": "user", "content": "no type"}], [{"role": "user", "content": "no type"}]),
        ([{"role": "developer", "content": "d"}, {"role": "system", "content": "s"}],
         [{"role": "system", "content": "d"}, {"role": "system", "content": "s"}]),
        ([{"role": "user", "content": [
            {"type": "input_text", "text": "what is it?"}, {"type": "input_image", "image_url": IMAGE, "detail": "original"},
        ]}], [{"role": "user", "content": [{"type": "text", "text": "what is it?"}, SEEN]}]),
        ([text("assistant", "one "), text("assistant", "two")], [{"role": "assistant", "content": "one two"}]),
        ([text("assistant", "a"), call("c1", "f", "{}"), text("assistant", "b")],
         [{"role": "assistant", "content": "ab", "tool_calls": [called("c1", "f", "{}")]}]),
        ([text("assistant", "a"), text("user", "u"), text("assistant", "b")],
         [{"role": "assistant", "content": "a"}, {"role": "user", "content": "u"}, {"role": "assistant", "content": "b"}]),
        ([call("c1", "f", '{"broken'), output("c1", "no JSON")],
         [{"role": "assistant", "content": "", "tool_calls": [called("c1", "f", '{"broken')]},
          {"role": "tool", "tool_call_id": "c1", "content": "no JSON"}]),
        ([output("c1", [{"type": "input_text", "text": "one"}, {"type": "input_text", "text": "two"}])],
         [{"role": "tool", "tool_call_id": "c1", "content": "one\ntwo"}]),
        ([{"type": "reasoning", "summary": [], "content": [
            {"type": "reasoning_text", "text": "raw"}], "encrypted_content": "gAAAAA"}, text("assistant", "a")],
         [{"role": "assistant", "content": "a", "reasoning": "raw"}]),
    ],
)  # fmt: skip
def test_items_as_messages(items: Any, expected: list[dict[str, Any]]) -> None:
    assert messages(read(items)) == expected


def test_sealed_reasoning_is_exact_whatever_the_harness_made_of_what_it_shows() -> None:
    item = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": seal(" hm\n")}
    assert messages(read([item])) == [{"role": "assistant", "content": "", "reasoning": " hm\n"}]


def test_images_of_tools_follow_in_a_user_message_after_the_last_output() -> None:
    seen = {"type": "input_image", "image_url": IMAGE, "detail": "high"}
    turn = read(
        [
            call("c1", "view_image", "{}"),
            call("c2", "shell", "{}"),
            output("c1", [{"type": "input_text", "text": "it is attached"}, seen]),
            output("c2", [seen], "custom_tool_call_output"),
            text("user", "and?"),
        ]
    )
    assert messages(turn)[1:] == [
        {"role": "tool", "tool_call_id": "c1", "content": "it is attached"},
        {"role": "tool", "tool_call_id": "c2", "content": ""},
        {"role": "user", "content": [SEEN, SEEN]},
        {"role": "user", "content": "and?"},
    ]
    assert turn.media


def test_images_at_the_end_are_not_lost() -> None:
    turn = read([call("c1", "f", "{}"), output("c1", [{"type": "input_image", "image_url": IMAGE}])])
    assert messages(turn)[-1] == {"role": "user", "content": [SEEN]}


def test_tools_as_functions() -> None:
    functions = [t["function"] for t in field(read(tools=[{**SHELL, "strict": True}, PATCH, AGENTS]), "tools")]
    assert functions[0] == {"name": "shell", "parameters": SHELL["parameters"], "strict": True}
    assert functions[1]["description"] == (
        "Edits files.\n\nGive it its text as the string `input`, which must match this lark grammar:\nstart: begin hunk+ end"
    )
    assert functions[1]["parameters"]["required"] == ["input"]
    assert [f["description"] for f in functions[2:]] == ["Tools of subagents.\n\nStarts one.", "Waits for one."]


def test_tools_in_the_input_are_offered_like_those_of_the_request() -> None:
    turn = read(
        [{"type": "additional_tools", "role": "developer", "tools": [AGENTS, PATCH]}, text("user", "hi")], tools=[PATCH]
    )
    assert [t["function"]["name"] for t in field(turn, "tools")] == ["apply_patch", "agents__spawn", "agents__wait"]
    assert messages(turn) == [{"role": "user", "content": "hi"}]


def test_a_search_for_tools_is_a_function_and_what_it_finds_is_offered() -> None:
    searched = {"type": "tool_search_call", "call_id": "c1", "execution": "client", "arguments": {"query": "agents"}}
    again = {**searched, "call_id": "c2", "arguments": msgspec.json.decode(as_object('{"broken'))}
    found = {"type": "tool_search_output", "call_id": "c1", "execution": "client", "tools": [AGENTS]}
    nothing = {"type": "tool_search_output", "call_id": "c2", "execution": "client", "tools": []}
    turn = read([searched, found, again, nothing], tools=[SEARCH])
    assert [t["function"]["name"] for t in field(turn, "tools")] == ["tool_search", "agents__spawn", "agents__wait"]
    assert messages(turn) == [
        {"role": "assistant", "content": "", "tool_calls": [called("c1", "tool_search", '{"query":"agents"}')]},
        {"role": "tool", "tool_call_id": "c1",
         "content": "Tools that were found and can be called now: agents__spawn, agents__wait"},
        {"role": "assistant", "content": "", "tool_calls": [called("c2", "tool_search", '{"broken')]},
        {"role": "tool", "tool_call_id": "c2", "content": "Tools that were found and can be called now: none"},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("required", "required"),
        ({"type": "function", "name": "shell"}, {"type": "function", "function": {"name": "shell"}}),
        ({"type": "custom", "name": "apply_patch"}, {"type": "function", "function": {"name": "apply_patch"}}),
    ],
)
def test_a_forced_tool_constrains(choice: Any, sent: Any) -> None:
    turn = read(tools=[SHELL, PATCH], tool_choice=choice)
    assert field(turn, "tool_choice") == sent
    assert turn.constrained


def test_strict_arguments_constrain_unless_no_tool_may_be_called() -> None:
    strict = {**SHELL, "strict": True}
    assert read(tools=[strict]).constrained
    assert not read(tools=[strict], tool_choice="none").constrained


@pytest.mark.parametrize("tools", [[], None, [{"type": "web_search"}, {"type": "tool_search", "execution": "server"}]])
def test_without_a_tool_the_engine_is_told_nothing_of_tools(tools: Any) -> None:
    turn = read(tools=tools, tool_choice="auto", parallel_tool_calls=True)
    assert turn.fields == {}


@pytest.mark.parametrize(
    ("wanted", "sent"),
    [
        ({"type": "json_object"}, {"type": "json_object"}),
        ({"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True},
         {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True}}),
    ],
)  # fmt: skip
def test_a_format_constrains(wanted: Any, sent: Any) -> None:
    turn = read(text={"format": wanted})
    assert field(turn, "response_format") == sent
    assert turn.constrained


def test_sampling_parameters_are_noted_and_not_sent() -> None:
    turn = read(temperature=0.2, top_p=0.9, max_output_tokens=7)
    assert turn.requested == {"temperature": 0.2, "top_p": 0.9, "max_completion_tokens": 7}
    assert (turn.max_tokens, turn.fields) == (7, {})


def test_harmless_fields_are_ignored() -> None:
    ignored: dict[str, Any] = {
        "store": True, "metadata": {"a": "b"}, "user": "u", "safety_identifier": "s", "service_tier": "auto", "include": [],
        "prompt_cache_key": "k", "prompt_cache_retention": "24h", "truncation": "auto", "context_management": [],
        "client_metadata": {}, "stream_options": {"include_obfuscation": False}, "max_tool_calls": 3, "background": False,
        "previous_response_id": None, "conversation": None,
    }  # fmt: skip
    assert read(**ignored) == read()


@pytest.mark.parametrize(
    ("request_fields", "named"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"background": True}, "background"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"top_logprobs": 5}, "top_logprobs"),
        ({"zzz": 1}, "zzz"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "item_reference"),
        ({"input": [{"type": "local_shell_call", "call_id": "c"}]}, "local_shell_call"),
        ({"input": [{"role": "critic", "content": "x"}]}, "critic"),
        ({"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]}, "input_file"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]}, "file_id"),
        ({"input": [{"role": "assistant", "content": [{"type": "input_image", "image_url": IMAGE}]}]}, "image"),
        ({"input": [{"type": "reasoning", "summary": [], "encrypted_content": "gAAAAA"}]}, "encrypted_content"),
        ({"input": [{"type": "reasoning", "summary": [], "encrypted_content": "openforge:%%"}]}, "encrypted_content"),
        ({"input": [{"type": "function_call", "name": "f", "arguments": "{}"}]}, "call_id"),
        ({"input": [{"type": "function_call", "call_id": "c", "arguments": "{}"}]}, "name"),
        ({"input": [{"type": "function_call_output", "output": "x"}]}, "call_id"),
        ({"input": []}, "input"),
        ({"input": 5}, "input"),
        ({"input": "hi", "max_output_tokens": 0}, "max_output_tokens"),
        ({"tools": [{"type": "local_shell"}]}, "local_shell"),
        ({"tools": [{"type": "function"}]}, "name"),
        ({"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "shell"}]}]}, "shell"),
        ({"tools": [SHELL], "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": []}}, "allowed_tools"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"text": {"format": {"type": "grammar"}}}, "grammar"),
    ],
)  # fmt: skip
def test_what_cannot_be_carried_is_refused_by_name(request_fields: dict[str, Any], named: str) -> None:
    with pytest.raises(Refused, match=named) as refused:
        read(**{"input": "hi", **request_fields})
    assert (refused.value.status, refused.value.kind) == (400, "invalid_request")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff{}", b'{"input": ' + b"[" * 100_000])
def test_a_body_that_is_no_request_is_refused(body: bytes) -> None:
    with pytest.raises(Refused):
        DIALECT.read(body, Target(PATH))


@pytest.mark.parametrize(
    ("path", "taken"),
    [
        ("/v1/responses", True),
        ("/responses", True),
        ("/v1/responses/input_tokens", True),
        ("/v1/responses/compact", False),
        ("/v1/responses/resp_1", False),
        ("/v1/chat/completions", False),
    ],
)
def test_routes(path: str, taken: bool) -> None:
    assert DIALECT.takes(path) is taken


def test_a_count_is_asked_for_at_a_route_of_its_own() -> None:
    assert read(path=PATH + "/input_tokens").count
    assert not read().count
    assert msgspec.json.decode(DIALECT.counted(42)) == {"object": "response.input_tokens", "input_tokens": 42}
