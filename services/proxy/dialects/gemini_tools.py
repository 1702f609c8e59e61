"""Gemini's tools and schemas in OpenAI chat terms."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Raw

from services.proxy.dialects.base import Json
from services.proxy.dialects.gemini_parts import NOTHING
from services.proxy.dialects.terms import Function, Schema, Tool, encode, raw

_ONE = ("items", "additionalProperties")
_MANY = ("anyOf", "prefixItems")
_NAMED = ("properties", "defs")
_COUNTS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
_CHOICES = {"MODE_UNSPECIFIED": "auto", "AUTO": "auto", "ANY": "required", "NONE": "none"}

_schema = msgspec.json.Decoder(Schema)


class FunctionDeclaration(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """A function that the model may call, its parameters in either kind of schema. What it answers, and whether the model may
    go on before it does, is told to no model here."""

    name: str
    description: str | None = None
    parameters: Json | None = None
    parameters_json_schema: Schema | None = None

    response: Raw = NOTHING
    response_json_schema: Raw = NOTHING
    behavior: Raw = NOTHING


class Tools(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """An entry of `tools`. What Google's servers run is offered to no model here, and it is as if it never called them."""

    function_declarations: list[FunctionDeclaration] = []

    google_search: Raw = NOTHING
    google_search_retrieval: Raw = NOTHING
    google_maps: Raw = NOTHING
    enterprise_web_search: Raw = NOTHING
    url_context: Raw = NOTHING
    code_execution: Raw = NOTHING


class FunctionCallingConfig(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Whether the model may, must or must not call, and which functions."""

    mode: Literal["MODE_UNSPECIFIED", "AUTO", "ANY", "NONE"] = "AUTO"
    allowed_function_names: list[str] = []


class ToolConfig(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Configuration of all tools."""

    function_calling_config: FunctionCallingConfig = FunctionCallingConfig()


def tool_fields(tools: list[Tools], config: FunctionCallingConfig) -> dict[str, Raw]:
    """`tools` and `tool_choice`; neither if there is no function to call, since engines refuse a choice among none."""
    declared = [function for entry in tools for function in entry.function_declarations]
    allowed = config.allowed_function_names or [function.name for function in declared]
    offered = [_tool(function) for function in declared if function.name in allowed]
    return {"tools": raw(offered), "tool_choice": raw(_CHOICES[config.mode])} if offered else {}


def json_schema(schema: Any) -> Any:
    """A schema of Gemini's kind (OpenAPI 3.0, types in capitals, counts as strings) as JSON schema. What is not one stays."""
    if not isinstance(schema, dict):
        return schema
    converted = {keyword: _keyword(keyword, value) for keyword, value in schema.items() if keyword != "nullable"}
    if schema.get("nullable") is True and isinstance(converted.get("type"), str):
        converted["type"] = [converted["type"], "null"]
    return converted


def converted(schema: Json) -> Schema:
    """`json_schema`, as it goes to the engine."""
    return _schema.decode(encode(json_schema(schema)))


def _tool(function: FunctionDeclaration) -> Tool:
    parameters = function.parameters_json_schema
    if function.parameters is not None:
        parameters = converted(function.parameters)
    return Tool(Function(function.name, function.description, parameters))


def _keyword(keyword: str, value: Any) -> Any:
    if keyword == "type" and isinstance(value, str):
        return value.lower()
    if keyword in _COUNTS and isinstance(value, str) and value.isdecimal():
        return int(value)
    if keyword in _ONE:
        return json_schema(value)
    if keyword in _MANY and isinstance(value, list):
        return [json_schema(one) for one in value]
    if keyword in _NAMED and isinstance(value, dict):
        return {name: json_schema(one) for name, one in value.items()}
    return value
