"""What a Gemini request asks for, in OpenAI chat terms."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Raw

from services.proxy.dialects.base import Count, Json, Turn
from services.proxy.dialects.gemini_messages import chat_messages, system_message
from services.proxy.dialects.gemini_parts import NOTHING, Content, Part
from services.proxy.dialects.gemini_tools import ToolConfig, Tools, converted, tool_fields
from services.proxy.dialects.terms import Message, Schema, json_schema, raw, reading
from services.proxy.errors import bad_request


class _System(msgspec.Struct):
    parts: list[Part] = []


class _GenerationConfig(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The fields of the second block are accepted and have no effect: how much to think is the chat template's, and the engine
    takes images as they are. A field that is not named here is refused by its name."""

    max_output_tokens: Annotated[int, Meta(ge=1)] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: float | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    stop_sequences: list[str] | None = None
    candidate_count: int | None = None
    response_mime_type: Literal["text/plain", "application/json"] = "text/plain"
    response_schema: Json | None = None
    response_json_schema: Schema | None = None
    response_modalities: list[Literal["TEXT"]] = []

    thinking_config: Raw = NOTHING
    media_resolution: Raw = NOTHING


class _Request(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The fields of the second block are accepted and have no effect: the model's name is in the path, what is unsafe is
    nobody's to judge here, and labels are for bills. A field that is not named here, such as `cachedContent`, is refused by its
    name."""

    contents: Annotated[list[Content], Meta(min_length=1)]
    system_instruction: _System | None = None
    tools: list[Tools] = []
    tool_config: ToolConfig = ToolConfig()
    generation_config: _GenerationConfig = _GenerationConfig()

    model: Raw = NOTHING
    safety_settings: Raw = NOTHING
    labels: Raw = NOTHING
    service_tier: Raw = NOTHING


class _CountRequest(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """A conversation alone, or a whole request."""

    contents: list[Content] = []
    generate_content_request: _Request | None = None


_request = msgspec.json.Decoder(_Request)
_count = msgspec.json.Decoder(_CountRequest)


def read(body: bytes, model: str, *, stream: bool, array: bool) -> Turn:
    """The turn of a request; `array` is for its writer.

    Raises:
        Refused: 400, it is malformed or something in it cannot be carried.
    """
    with reading("a generateContent request"):
        request = _request.decode(body)
        messages = _messages(request)
    if messages[-1].role == "assistant":
        raise bad_request(
            "the last content is the model's: a prefilled reply cannot be carried, since its tokens were not sampled; end the "
            "conversation with a content of the user"
        )
    config = request.generation_config
    fields = _fields(request)
    return Turn(
        model=model,
        messages=[raw(message) for message in messages],
        fields=fields,
        stream=stream,
        constrained=request.tool_config.function_calling_config.mode == "ANY" or "response_format" in fields,
        max_tokens=config.max_output_tokens,
        requested=_requested(config),
        media=_media(messages),
        private=array,
    )


def read_count(body: bytes, model: str, count: Count) -> Turn:
    """The turn whose prompt's tokens are to be counted; `count` words the answer.

    Raises:
        Refused: 400, as `read`.
    """
    with reading("a countTokens request"):
        asked = _count.decode(body)
        request = asked.generate_content_request or _Request(contents=asked.contents)
        messages = _messages(request)
    if not messages:
        raise bad_request("a countTokens request needs contents, or a generateContentRequest with some")
    raws = [raw(message) for message in messages]
    return Turn(model=model, messages=raws, fields=_fields(request), media=_media(messages), count=count)


def _messages(request: _Request) -> list[Message]:
    system = request.system_instruction
    return [*([system_message(system.parts)] if system and system.parts else []), *chat_messages(request.contents)]


def _media(messages: list[Message]) -> bool:
    return any(not isinstance(message.content, str) for message in messages)


def _fields(request: _Request) -> dict[str, Raw]:
    config = request.generation_config
    if config.candidate_count not in (None, 1):
        raise bad_request(
            f"candidateCount={config.candidate_count}: one reply per call is recorded here; ask for 1 and call again for more"
        )
    fields = tool_fields(request.tools, request.tool_config.function_calling_config)
    if config.stop_sequences:
        fields["stop"] = raw(config.stop_sequences)
    if config.response_json_schema is not None:
        fields["response_format"] = json_schema(config.response_json_schema)
    elif config.response_schema is not None:
        fields["response_format"] = json_schema(converted(config.response_schema))
    elif config.response_mime_type == "application/json":
        fields["response_format"] = raw({"type": "json_object"})
    return fields


def _requested(config: _GenerationConfig) -> Json:
    asked = {
        "temperature": config.temperature,
        "top_p": config.top_p,
        "top_k": None if config.top_k is None else int(config.top_k),
        "seed": config.seed,
        "presence_penalty": config.presence_penalty,
        "frequency_penalty": config.frequency_penalty,
        "max_tokens": config.max_output_tokens,
        "stop": config.stop_sequences,
    }
    return {name: value for name, value in asked.items() if value is not None}
