"""Gemini requests in chat terms, with payloads like those of Gemini CLI."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.proxy.dialects.base import Target, Turn
from services.proxy.dialects.gemini import Gemini
from services.proxy.errors import Refused

SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
SHELL = {"name": "run_shell_command", "description": "Runs it", "parametersJsonSchema": SCHEMA}
OFFERED = {"type": "function", "function": {"name": "run_shell_command", "description": "Runs it", "parameters": SCHEMA}}
PNG = {"inlineData": {"mimeType": "image/png", "data": "iVBOR"}}
IMAGE_PART = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBOR"}}
SIGNATURE = {"thoughtSignature": "skip_thought_signature_validator"}
ASK = {"role": "user", "parts": [{"text": "hi"}]}


def read(method: str = "generateContent", query: str = "", contents: Any = (ASK,), **fields: Any) -> Turn:
    body = {"contents": list(contents)} | fields
    return Gemini().read(json.dumps(body).encode(), Target(f"/v1beta/models/gemini-2.5-pro:{method}", query))


def messages(*contents: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    return [msgspec.json.decode(message) for message in read(contents=contents, **fields).messages]


def fields(**asked: Any) -> dict[str, Any]:
    return {name: msgspec.json.decode(raw) for name, raw in read(**asked).fields.items()}


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def model(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def call(name: str = "shell", args: Any = None, **more: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": args or {}} | more}


def answer(response: dict[str, Any], name: str = "shell", **more: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": response} | more}


def test_a_request_of_gemini_cli() -> None:
    turn = read(
        "streamGenerateContent",
        "alt=sse",
        contents=[
            user({"text": "This is the Gemini CLI."}, {"text": "Create out.txt"}),
            model(
                {"text": "I think.", "thought": True},
                {"text": "I "},
                {"text": "will."},
                call("run_shell_command", {"command": "ls"}, id="c-1") | SIGNATURE,
                call("read_file", {"path": "a"}, id="c-2"),
            ),
            user(answer({"output": "a.txt"}, "run_shell_command", id="c-1"), answer({"error": "none"}, "read_file", id="c-2")),
        ],
        systemInstruction={"parts": [{"text": "You are an agent."}], "role": "user"},
        tools=[{"functionDeclarations": [SHELL]}],
        generationConfig={
            "temperature": 1, "topP": 0.95, "topK": 64, "maxOutputTokens": 100, "stopSequences": ["END"], "seed": 3,
            "thinkingConfig": {"includeThoughts": True, "thinkingBudget": 8192},
        },
        safetySettings=[],
    )  # fmt: skip
    assert [msgspec.json.decode(message) for message in turn.messages] == [
        {"role": "system", "content": "You are an agent."},
        {"role": "user", "content": "This is the Gemini CLI.\nCreate out.txt"},
        {
            "role": "assistant",
            "content": "I will.",
            "reasoning": "I think.",
            "tool_calls": [
                {"id": "c-1", "type": "function", "function": {"name": "run_shell_command", "arguments": '{"command":"ls"}'}},
                {"id": "c-2", "type": "function", "function": {"name": "read_file", "arguments": '{"path":"a"}'}},
            ],
        },
        {"role": "tool", "content": "a.txt", "tool_call_id": "c-1"},
        {"role": "tool", "content": '{"error":"none"}', "tool_call_id": "c-2"},
    ]
    assert {name: msgspec.json.decode(raw) for name, raw in turn.fields.items()} == {
        "tools": [OFFERED],
        "tool_choice": "auto",
        "stop": ["END"],
    }
    assert turn.requested == {"temperature": 1, "top_p": 0.95, "top_k": 64, "seed": 3, "max_tokens": 100, "stop": ["END"]}
    assert (turn.model, turn.stream, turn.max_tokens) == ("gemini-2.5-pro", True, 100)
    assert (turn.constrained, turn.media, turn.count) == (False, False, None)


@pytest.mark.parametrize(
    ("method", "query", "stream"),
    [
        ("generateContent", "", False),
        ("generateContent", "alt=sse", False),
        ("streamGenerateContent", "key=x&alt=sse", True),
        ("streamGenerateContent", "", False),
        ("streamGenerateContent", "alt=json", False),
    ],
)
def test_only_events_are_streamed(method: str, query: str, stream: bool) -> None:
    assert read(method, query).stream is stream


def test_ids_are_made_by_place_and_answers_find_theirs() -> None:
    said = messages(
        ASK,
        model(call("a"), call("b"), call("a")),
        user(answer({"output": "b"}, "b"), answer({"output": "a1"}, "a"), answer({"output": "a2"}, "a")),
        model(call("a")),
        user(answer({"output": "a3"}, "a"), {"text": "on"}),
    )
    assert [[made["id"] for made in m["tool_calls"]] for m in said if m["role"] == "assistant"] == [
        ["call_1", "call_2", "call_3"],
        ["call_4"],
    ]
    assert [(m["content"], m["tool_call_id"]) for m in said if m["role"] == "tool"] == [
        ("b", "call_2"), ("a1", "call_1"), ("a2", "call_3"), ("a3", "call_4"),
    ]  # fmt: skip
    assert said[-1] == {"role": "user", "content": "on"}


@pytest.mark.parametrize(
    ("response", "content"),
    [
        ({"output": "text"}, "text"),
        ({"output": {"a": [1]}}, '{"a": [1]}'),
        ({"error": "no"}, '{"error":"no"}'),
        ({"output": "x", "error": "y"}, '{"output":"x","error":"y"}'),
        ({"result": 1}, '{"result":1}'),
        ({}, "{}"),
    ],
)
def test_what_a_function_answered(response: dict[str, Any], content: str) -> None:
    assert messages(ASK, model(call()), user(answer(response)))[-1]["content"] == content


def test_images_beside_and_in_answers_become_the_users() -> None:
    said = messages(ASK, model(call()), user(answer({"output": "pic"}, parts=[PNG]), {"text": "see?"}, PNG))
    assert said[-2:] == [
        {"role": "tool", "content": "pic", "tool_call_id": "call_1"},
        {"role": "user", "content": [IMAGE_PART, {"type": "text", "text": "see?"}, IMAGE_PART]},
    ]
    assert read(contents=[user(PNG)]).media


def test_the_functions_side_may_have_a_role_of_its_own() -> None:
    assert messages(ASK, model(call()), {"role": "function", "parts": [answer({"output": "x"})]})[-1]["role"] == "tool"
    assert messages({"parts": [{"text": "hi"}]}) == [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    ("config", "choice", "names", "constrained"),
    [
        ({}, "auto", ["a", "b"], False),
        ({"mode": "AUTO"}, "auto", ["a", "b"], False),
        ({"mode": "NONE"}, "none", ["a", "b"], False),
        ({"mode": "ANY"}, "required", ["a", "b"], True),
        ({"mode": "ANY", "allowedFunctionNames": ["b"]}, "required", ["b"], True),
    ],
)
def test_choice_of_functions(config: dict[str, Any], choice: str, names: list[str], constrained: bool) -> None:
    asked: dict[str, Any] = {
        "tools": [{"functionDeclarations": [{"name": "a"}]}, {"functionDeclarations": [{"name": "b"}]}],
        "toolConfig": {"functionCallingConfig": config},
    }
    assert fields(**asked)["tool_choice"] == choice
    assert [tool["function"]["name"] for tool in fields(**asked)["tools"]] == names
    assert read(**asked).constrained is constrained


def test_hosted_tools_are_left_out() -> None:
    assert fields(tools=[{"googleSearch": {}}, {"urlContext": {}}, {"codeExecution": {}}]) == {}


OPENAPI = {
    "type": "OBJECT",
    "properties": {
        "type": {"type": "STRING", "nullable": True, "enum": ["A"], "description": "STRING"},
        "items": {"type": "ARRAY", "minItems": "1", "items": {"anyOf": [{"type": "INTEGER"}, {"type": "NULL"}]}},
    },
    "required": ["type"],
}
CONVERTED = {
    "type": "object",
    "properties": {
        "type": {"type": ["string", "null"], "enum": ["A"], "description": "STRING"},
        "items": {"type": "array", "minItems": 1, "items": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
    },
    "required": ["type"],
}


def test_schemas_of_geminis_kind() -> None:
    asked = fields(tools=[{"functionDeclarations": [{"name": "f", "parameters": OPENAPI}]}])
    assert asked["tools"][0]["function"] == {"name": "f", "parameters": CONVERTED}


@pytest.mark.parametrize(
    ("config", "form"),
    [
        ({"responseMimeType": "text/plain"}, None),
        ({"responseMimeType": "application/json"}, {"type": "json_object"}),
        ({"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}, SCHEMA),
        ({"responseMimeType": "application/json", "responseSchema": OPENAPI}, CONVERTED),
    ],
)
def test_replies_by_a_schema(config: dict[str, Any], form: Any) -> None:
    wanted: Any = fields(generationConfig=config).get("response_format")
    assert wanted == form or wanted["json_schema"] == {"name": "reply", "schema": form, "strict": True}
    assert read(generationConfig=config).constrained is (form is not None)


@pytest.mark.parametrize(
    "body",
    [
        {"contents": [ASK, model({"text": "x"})]},
        {"generateContentRequest": {"model": "models/gemini-2.5-pro", "contents": [ASK, model({"text": "x"})]}},
    ],
)
def test_counting_takes_a_conversation_or_a_request(body: dict[str, Any]) -> None:
    turn = Gemini().read(json.dumps(body).encode(), Target("/v1beta/models/m:countTokens"))
    assert (turn.count is None, len(turn.messages)) == (False, 2)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"cachedContent": "cachedContents/x"}, "cachedContent"),
        ({"contents": []}, "contents"),
        ({"contents": [ASK, model({"text": "The"})]}, "prefilled"),
        ({"contents": [{"role": "system", "parts": []}]}, "system"),
        ({"contents": [user({"fileData": {"fileUri": "x"}})]}, "fileData"),
        ({"contents": [model({"executableCode": {"code": "x"}}), ASK]}, "executableCode"),
        ({"contents": [model({"codeExecutionResult": {}}), ASK]}, "codeExecutionResult"),
        ({"contents": [user({"inlineData": {"mimeType": "audio/mp3", "data": ""}})]}, "audio/mp3"),
        ({"contents": [model(PNG), ASK]}, "inlineData"),
        ({"contents": [user(call())]}, "functionCall"),
        ({"contents": [model(answer({})), ASK]}, "functionResponse"),
        ({"contents": [model(call("f", "x")), ASK]}, "object"),
        ({"contents": [ASK, model(call("f")), user(answer({}, "g"))]}, "'g'"),
        ({"systemInstruction": {"parts": [PNG]}}, "systemInstruction"),
        ({"tools": [{"computerUse": {}}]}, "computerUse"),
        ({"tools": [{"fileSearch": {}}]}, "fileSearch"),
        ({"toolConfig": {"functionCallingConfig": {"mode": "VALIDATED"}}}, "VALIDATED"),
        ({"generationConfig": {"candidateCount": 2}}, "candidateCount"),
        ({"generationConfig": {"responseLogprobs": True}}, "responseLogprobs"),
        ({"generationConfig": {"responseModalities": ["IMAGE"]}}, "IMAGE"),
        ({"generationConfig": {"responseMimeType": "text/x.enum"}}, "text/x.enum"),
        ({"generationConfig": {"speechConfig": {}}}, "speechConfig"),
    ],
)
def test_what_cannot_be_carried_is_refused_by_its_name(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(Refused, match=named) as refused:
        read(**fields)
    assert (refused.value.status, refused.value.kind) == (400, "invalid_request")


@settings(deadline=None)
@given(
    st.binary() | st.sampled_from([b"", b"[]", b'{"contents":', b"[" * 100_000, b"{}", b"null"]),
    st.sampled_from(["generateContent", "countTokens"]),
)
def test_other_bytes_are_refused(body: bytes, method: str) -> None:
    with pytest.raises(Refused) as refused:
        Gemini().read(body, Target(f"/v1beta/models/m:{method}"))
    assert refused.value.status == 400


@pytest.mark.parametrize("opening", ['{"items":', '{"a":{"properties":{"b":'])
def test_schemas_without_end_are_refused(opening: str) -> None:
    body = b'{"contents":[{"parts":[]}],"generationConfig":{"responseSchema":%s' % (opening * 50_000).encode()
    with pytest.raises(Refused):
        Gemini().read(body, Target("/v1beta/models/m:generateContent"))


def test_paths() -> None:
    taken = [
        "/v1beta/models/gemini-2.5-pro:generateContent",
        "/v1/models/org/name:streamGenerateContent",
        "/v1alpha/models/m:countTokens",
    ]
    others = [
        "/v1beta/models/m",
        "/v1beta/models/m:embedContent",
        "/v1/models",
        "/v1beta/models/:generateContent",
        "/v1/messages",
    ]
    assert [path for path in taken + others if Gemini().takes(path)] == taken


def test_names_of_models_are_unquoted() -> None:
    body = json.dumps({"contents": [ASK]}).encode()
    assert Gemini().read(body, Target("/v1beta/models/org%2Fname:generateContent")).model == "org/name"
