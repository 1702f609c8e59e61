"""What an Anthropic Messages request asks for, in OpenAI chat terms."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Raw

from services.proxy.dialects.anthropic_blocks import Text
from services.proxy.dialects.anthropic_messages import Said, chat_messages, found_tools, system_message
from services.proxy.dialects.base import Count, Json, Turn
from services.proxy.dialects.terms import Function, Message, Schema, Tool, json_schema, named_choice, raw, reading
from services.proxy.errors import bad_request

_HOSTED = ("web_search_", "web_fetch_", "code_execution_", "tool_search_tool_", "advisor_")
"""Types of tools that Anthropic's servers run. They are offered to no model here, and it is as if it never called them."""

_CHOICES = {"auto": "auto", "any": "required", "none": "none"}

_NOTHING = Raw()


class _Ignored(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Fields that are accepted and have no effect: what they govern is not the request's to choose here, or does not exist.
    A field that is neither here nor in `_Request` (`mcp_servers`, `container`, `thread`) is refused by its name."""

    # who asks, and where and at what price it is served
    metadata: Raw = _NOTHING
    service_tier: Raw = _NOTHING
    speed: Raw = _NOTHING
    inference_geo: Raw = _NOTHING
    workspace_id: Raw = _NOTHING
    user_profile_id: Raw = _NOTHING
    billing_policy: Raw = _NOTHING
    fallbacks: Raw = _NOTHING
    fallback_credit_token: Raw = _NOTHING
    diagnostics: Raw = _NOTHING
    # the prefix cache is the engine's
    cache_control: Raw = _NOTHING
    # how much to think is the chat template's
    thinking: Raw = _NOTHING
    # clearing old tool results and compacting on the server start at a length that the client set; a context that is too long
    # is an error here, as it is there without them
    context_management: Raw = _NOTHING
    compaction: Raw = _NOTHING
    # versions of the API
    betas: Raw = _NOTHING
    anthropic_beta: Raw = _NOTHING
    anthropic_version: Raw = _NOTHING


class _Tool(msgspec.Struct):
    name: str = ""
    type: str = "custom"
    description: str | None = None
    input_schema: Schema | None = None
    strict: bool | None = None
    defer_loading: bool | None = None


class _ToolChoice(msgspec.Struct):
    type: Literal["auto", "any", "tool", "none"]
    name: str = ""
    disable_parallel_tool_use: bool | None = None


class _Format(msgspec.Struct, tag="json_schema"):
    schema: Schema


class _OutputConfig(msgspec.Struct):
    format: _Format | None = None


class _Request(_Ignored):
    model: str
    messages: Annotated[list[Said], Meta(min_length=1)]
    system: str | list[Text] | None = None
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    stream: bool | None = None
    stop_sequences: list[str] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    tools: list[_Tool] | None = None
    tool_choice: _ToolChoice | None = None
    output_config: _OutputConfig | None = None
    output_format: _Format | None = None


_request = msgspec.json.Decoder(_Request)


def read(body: bytes, *, count: Count | None) -> Turn:
    """The turn of a request; `count` words the answer where only its prompt's tokens are to be counted.

    Raises:
        Refused: 400, it is malformed or something in it cannot be carried.
    """
    with reading("a Messages request"):
        request = _request.decode(body)
        messages = [*_leading(request), *(m for said in request.messages for m in chat_messages(said))]
    if messages[-1].role == "assistant" and count is None:
        raise bad_request(
            "the last message is the assistant's: a prefilled reply cannot be carried, since its tokens were not sampled; "
            "end the conversation with a user message"
        )
    return Turn(
        model=request.model,
        messages=[raw(message) for message in messages],
        fields=_fields(request),
        stream=bool(request.stream),
        constrained=_constrained(request),
        max_tokens=request.max_tokens,
        requested=_requested(request),
        media=any(not isinstance(message.content, str) for message in messages),
        count=count,
    )


def _leading(request: _Request) -> list[Message]:
    return [system_message(request.system)] if request.system else []


def _fields(request: _Request) -> dict[str, Raw]:
    fields = _tool_fields(request)
    if request.stop_sequences:
        fields["stop"] = raw(request.stop_sequences)
    if (wanted := _format(request)) is not None:
        fields["response_format"] = json_schema(wanted.schema)
    return fields


def _tool_fields(request: _Request) -> dict[str, Raw]:
    asked = request.tools or []
    found = found_tools(request.messages) if any(tool.defer_loading for tool in asked) else set()
    offered = [_tool(tool) for tool in asked if not _hosted(tool) and (tool.name in found or not tool.defer_loading)]
    if not offered:  # engines refuse a choice among no tools
        return {}
    fields = {"tools": raw(offered)}
    choice = request.tool_choice or _ToolChoice("auto")
    if choice.disable_parallel_tool_use:
        fields["parallel_tool_calls"] = raw(False)
    if choice.type != "tool":
        fields["tool_choice"] = raw(_CHOICES[choice.type])
    elif choice.name not in {tool.name for tool in asked if _hosted(tool)}:
        fields["tool_choice"] = named_choice(choice.name)
    return fields


def _hosted(tool: _Tool) -> bool:
    return tool.input_schema is None and tool.type.startswith(_HOSTED)


def _tool(tool: _Tool) -> Tool:
    if tool.input_schema is None:
        raise bad_request(
            f"the tool {tool.name!r} of type {tool.type!r} has no input_schema, and a model here does not know tools by their "
            "type: declare it with a schema"
        )
    return Tool(Function(tool.name, tool.description, tool.input_schema, tool.strict))


def _constrained(request: _Request) -> bool:
    choice = request.tool_choice.type if request.tool_choice else "auto"
    # vLLM samples the arguments of strict tools under a grammar, even when the choice of the tool is free
    strict = choice != "none" and any(tool.strict for tool in request.tools or ())
    return choice in ("any", "tool") or strict or _format(request) is not None


def _format(request: _Request) -> _Format | None:
    return (request.output_config.format if request.output_config else None) or request.output_format


def _requested(request: _Request) -> Json:
    asked = {
        "temperature": request.temperature,
        "top_p": request.top_p,
        "top_k": request.top_k,
        "max_tokens": request.max_tokens,
        "stop": request.stop_sequences,
    }
    return {name: value for name, value in asked.items() if value is not None}
