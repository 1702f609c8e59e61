"""Anthropic Messages requests in chat terms, with payloads like those of Claude Code."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.proxy.dialects.anthropic import AnthropicMessages
from services.proxy.dialects.base import Target, Turn
from services.proxy.errors import Refused

CACHED: dict[str, Any] = {"cache_control": {"type": "ephemeral"}}
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
BASH = {"name": "Bash", "description": "Runs a command", "input_schema": SCHEMA}
OFFERED = {"type": "function", "function": {"name": "Bash", "description": "Runs a command", "parameters": SCHEMA}}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBOR"}}
IMAGE_PART = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBOR"}}
ASK = {"role": "user", "content": "hi"}


def read(path: str = "/v1/messages", **fields: Any) -> Turn:
    body = {"model": "m", "max_tokens": 9, "messages": [ASK]} | fields
    return AnthropicMessages().read(json.dumps(body).encode(), Target(path, "beta=true"))


def messages(*said: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    return [msgspec.json.decode(message) for message in read(messages=list(said), **fields).messages]


def fields(**asked: Any) -> dict[str, Any]:
    return {name: msgspec.json.decode(raw) for name, raw in read(**asked).fields.items()}


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": said} | more


def result(content: Any, to: str = "toolu_1", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": to, "content": content} | more


def test_a_request_of_claude_code() -> None:
    turn = read(
        system=[text("You are Claude Code.", **CACHED), text("\nBe brief.", **CACHED)],
        messages=[
            {"role": "user", "content": [text("<system-reminder>x</system-reminder>"), text("Create out.txt", **CACHED)]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "I think.", "signature": "c2ln"},
                    {"type": "redacted_thinking", "data": "abc"},
                    text("I will."),
                    {
                        "type": "tool_use",
                        "id": "toolu_1",
                        "name": "Bash",
                        "input": {"command": "ls"},
                        "caller": {"type": "direct"},
                    },
                    {"type": "tool_use", "id": "toolu_2", "name": "Bash", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    result("a.txt", **CACHED),
                    result([text("one"), text("two")], "toolu_2", is_error=True),
                    text("go on"),
                ],
            },
            {"role": "system", "content": "Keep to the task."},
        ],
        tools=[BASH | CACHED],
        metadata={"user_id": "u"},
        thinking={"type": "adaptive"},
        context_management={"edits": []},
        output_config={"effort": "high"},
        service_tier="auto",
        betas=["x"],
        stream=True,
        max_tokens=32000,
    )
    assert [msgspec.json.decode(message) for message in turn.messages] == [
        {"role": "system", "content": "You are Claude Code.\n\nBe brief."},
        {"role": "user", "content": "<system-reminder>x</system-reminder>\nCreate out.txt"},
        {
            "role": "assistant",
            "content": "I will.",
            "reasoning": "I think.",
            "tool_calls": [
                {"id": "toolu_1", "type": "function", "function": {"name": "Bash", "arguments": '{"command": "ls"}'}},
                {"id": "toolu_2", "type": "function", "function": {"name": "Bash", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "content": "a.txt", "tool_call_id": "toolu_1"},
        {"role": "tool", "content": "one\ntwo", "tool_call_id": "toolu_2"},
        {"role": "user", "content": "go on"},
        {"role": "system", "content": "Keep to the task."},
    ]
    assert {name: msgspec.json.decode(raw) for name, raw in turn.fields.items()} == {"tools": [OFFERED], "tool_choice": "auto"}
    assert (turn.model, turn.stream, turn.max_tokens, turn.requested) == ("m", True, 32000, {"max_tokens": 32000})
    assert (turn.constrained, turn.media, turn.count) == (False, False, None)


def test_a_string_is_the_same_message_as_one_block() -> None:
    assert messages({"role": "user", "content": "a"}) == messages({"role": "user", "content": [text("a", **CACHED)]})
    assert messages(ASK, system="s") == messages(ASK, system=[text("s")])


@pytest.mark.parametrize("system", [None, "", []])
def test_no_instructions_no_system_message(system: Any) -> None:
    assert messages(ASK, system=system) == [ASK]


def test_images_of_tool_results_become_the_users() -> None:
    said = {"role": "user", "content": [result([text("pic.png"), IMAGE]), text("see?"), IMAGE]}
    assert messages(said) == [
        {"role": "tool", "content": "pic.png", "tool_call_id": "toolu_1"},
        {"role": "user", "content": [IMAGE_PART, text("see?"), IMAGE_PART]},
    ]
    assert read(messages=[said]).media


def test_an_image_by_address() -> None:
    said = {"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "http://x/a.png"}}]}
    assert messages(said) == [
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x/a.png"}}]},
    ]


def test_results_without_content_are_empty_messages() -> None:
    empty = {"type": "tool_result", "tool_use_id": "toolu_1"}
    assert messages({"role": "user", "content": [empty]}) == [{"role": "tool", "content": "", "tool_call_id": "toolu_1"}]


def test_arguments_are_the_harness_own_text() -> None:
    call = b'{"type":"tool_use","id":"t","name":"n","input":{"a" :  1e0}}'
    body = b'{"model":"m","messages":[{"role":"assistant","content":[%s]},{"role":"user","content":"x"}]}' % call
    turn = AnthropicMessages().read(body, Target("/v1/messages"))
    assert msgspec.json.decode(turn.messages[0])["tool_calls"][0]["function"]["arguments"] == '{"a" :  1e0}'


@pytest.mark.parametrize(
    ("sent_back", "written"),
    [
        ({"__unparsedToolInput": {"raw": '{"command": "é😀', "len": 16}}, '{"command": "é😀'),
        ({"__unparsedToolInput": {"raw": '{"comm', "len": 9000}}, '{"__unparsedToolInput":{"raw":"{\\"comm","len":9000}}'),
        ({"__unparsedToolInput": 1}, '{"__unparsedToolInput":1}'),
        ([1], "[1]"),
        ("x", '"x"'),
    ],
)
def test_malformed_arguments_as_claude_code_sends_them_back(sent_back: Any, written: str) -> None:
    use = {"type": "tool_use", "id": "t", "name": "n", "input": sent_back}
    body = json.dumps({"model": "m", "messages": [{"role": "assistant", "content": [use]}, ASK]}, separators=(",", ":"))
    turn = AnthropicMessages().read(body.encode(), Target("/v1/messages"))
    assert msgspec.json.decode(turn.messages[0])["tool_calls"][0]["function"]["arguments"] == written


@pytest.mark.parametrize(
    ("asked", "choice", "constrained"),
    [
        (None, "auto", False),
        ({"type": "auto"}, "auto", False),
        ({"type": "none"}, "none", False),
        ({"type": "any"}, "required", True),
        ({"type": "tool", "name": "Bash"}, {"type": "function", "function": {"name": "Bash"}}, True),
    ],
)
def test_choice_of_tools(asked: Any, choice: Any, constrained: bool) -> None:
    assert fields(tools=[BASH], tool_choice=asked)["tool_choice"] == choice
    assert read(tools=[BASH], tool_choice=asked).constrained is constrained


def test_one_tool_at_a_time() -> None:
    asked = fields(tools=[BASH], tool_choice={"type": "auto", "disable_parallel_tool_use": True})
    assert asked["parallel_tool_calls"] is False


def test_strict_tools_are_sampled_under_a_grammar() -> None:
    assert fields(tools=[BASH | {"strict": True}])["tools"][0]["function"]["strict"] is True
    assert read(tools=[BASH | {"strict": True}]).constrained
    assert not read(tools=[BASH | {"strict": True}], tool_choice={"type": "none"}).constrained


def test_hosted_tools_are_left_out_with_their_choice() -> None:
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
    forced = {"type": "tool", "name": "web_search"}
    assert fields(tools=[search], tool_choice=forced) == {}
    assert fields(tools=[search, BASH], tool_choice=forced) == {"tools": [OFFERED]}


def test_tools_that_are_searched_for_are_offered_once_they_are_found() -> None:
    deferred = [BASH | {"defer_loading": True}, {"name": "Other", "input_schema": SCHEMA, "defer_loading": True}]
    search = {"name": "ToolSearch", "input_schema": SCHEMA}
    found = {"role": "user", "content": [result([{"type": "tool_reference", "tool_name": "Bash"}])]}
    assert [t["function"]["name"] for t in fields(tools=[search, *deferred])["tools"]] == ["ToolSearch"]
    assert [t["function"]["name"] for t in fields(tools=[search, *deferred], messages=[found])["tools"]] == [
        "ToolSearch",
        "Bash",
    ]
    assert messages(found) == [{"role": "tool", "content": "Bash", "tool_call_id": "toolu_1"}]


@pytest.mark.parametrize("where", ["output_config", "output_format"])
def test_replies_by_a_schema(where: str) -> None:
    form = {"type": "json_schema", "schema": SCHEMA}
    asked: dict[str, Any] = {where: {"format": form, "effort": "low"} if where == "output_config" else form}
    assert fields(**asked)["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "reply", "schema": SCHEMA, "strict": True},
    }
    assert read(**asked).constrained


def test_sampling_is_recorded_as_asked_for() -> None:
    turn = read(temperature=1, top_p=0.5, top_k=40, stop_sequences=["END"])
    assert turn.requested == {"temperature": 1, "top_p": 0.5, "top_k": 40, "max_tokens": 9, "stop": ["END"]}
    assert {name: msgspec.json.decode(raw) for name, raw in turn.fields.items()} == {"stop": ["END"]}


def test_counting_takes_a_conversation_that_ends_with_the_assistant() -> None:
    prefilled = [ASK, {"role": "assistant", "content": "The"}]
    assert read("/v1/messages/count_tokens", messages=prefilled).count
    with pytest.raises(Refused, match="prefilled"):
        read(messages=prefilled)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"mcp_servers": []}, "mcp_servers"),
        ({"container": "c"}, "container"),
        ({"thread": {}}, "thread"),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "bash_20250124"),
        ({"tools": [{"type": "computer_20251124", "name": "computer", "display_width_px": 1}]}, "computer_20251124"),
        ({"tools": [{"type": "text_editor_20250728", "name": "edit"}]}, "text_editor_20250728"),
        ({"tools": [{"type": "mcp_toolset", "mcp_server_name": "s"}]}, "mcp_toolset"),
        ({"tool_choice": {"type": "some"}}, "some"),
        ({"output_config": {"format": {"type": "regex"}}}, "regex"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "tool"),
        ({"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "file", "file_id": "f"}}]}]}, "file"),
        ({"messages": [{"role": "user", "content": [result([{"type": "search_result"}])]}]}, "search_result"),
        *(
            ({"messages": [{"role": role, "content": [{"type": block}]}]}, block)
            for role, block in [
                ("user", "document"),
                ("user", "search_result"),
                ("user", "container_upload"),
                ("user", "tool_use"),
                ("assistant", "server_tool_use"),
                ("assistant", "web_search_tool_result"),
                ("assistant", "tool_result"),
                ("system", "image"),
            ]
        ),
    ],
)
def test_what_cannot_be_carried_is_refused_by_its_name(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(Refused, match=named) as refused:
        read(**fields)
    assert (refused.value.status, refused.value.kind) == (400, "invalid_request")


@settings(deadline=None)
@given(st.binary() | st.sampled_from([b"", b"[]", b'{"messages":', b"[" * 100_000, b'{"model":"\xff"}', b"null"]))
def test_other_bytes_are_refused(body: bytes) -> None:
    with pytest.raises(Refused) as refused:
        AnthropicMessages().read(body, Target("/v1/messages"))
    assert refused.value.status == 400


def test_paths() -> None:
    taken = ["/v1/messages", "/v1/messages/count_tokens"]
    others = ["/v1/messages/", "/v1/messages/batches", "/v1/chat/completions", "/messages"]
    assert [path for path in taken + others if AnthropicMessages().takes(path)] == taken
