"""OpenAI Responses: `POST /v1/responses`, and the count of `POST /v1/responses/input_tokens`.

Calls are stateless here: a request holds its whole conversation, and no response is kept.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Raw

from services.proxy.dialects import responses_events as ev
from services.proxy.dialects.base import Json, Target, Turn, Writer
from services.proxy.dialects.responses_read import Conversation, Item
from services.proxy.dialects.responses_tools import Choice, Offer, Tool, chosen, offer
from services.proxy.dialects.responses_write import Asked, ResponsesWriter
from services.proxy.dialects.terms import Schema, encode, raw, reading
from services.proxy.errors import Refused, bad_request

_ROUTES = ("/v1/responses", "/responses")
_COUNT = "/input_tokens"

_HARMLESS = frozenset(
    {
        # what becomes of a request on the API's servers, of which the model sees nothing
        "store", "metadata", "client_metadata", "user", "safety_identifier", "service_tier", "access_programs", "moderation",
        "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options", "background_options",
        # what else the reply could hold: hosted tools' output, padding
        "include", "stream_options", "max_tool_calls",
        # what the API may cut from a conversation that is too long; here the engine refuses it, and the harness compacts
        "truncation", "context_management", "image",
    }
)  # fmt: skip
"""Fields that are accepted and ignored. A field that is neither here nor read is refused."""


class _TextFormat(msgspec.Struct, frozen=True):
    type: str = "text"
    name: str = "reply"
    schema: Schema = {}
    strict: bool | None = None
    description: str | None = None


class _Text(msgspec.Struct):
    format: _TextFormat = _TextFormat()
    verbosity: str | None = None


class _Reasoning(msgspec.Struct):
    effort: str | None = None


class _Request(msgspec.Struct):
    """The fields that are read."""

    input: str | list[Item]
    model: str | None = None
    instructions: str | None = None
    stream: bool | None = None
    background: bool | None = None
    tools: list[Tool] | None = None
    tool_choice: str | Choice | None = None
    parallel_tool_calls: bool | None = None
    max_output_tokens: Annotated[int, Meta(ge=1)] | None = None
    temperature: float | None = None
    top_p: float | None = None
    text: _Text | None = None
    reasoning: _Reasoning | None = None


class _JsonSchema(msgspec.Struct, omit_defaults=True):
    name: str
    schema: Schema
    strict: bool | None = None
    description: str | None = None


_NULL = Raw(b"null")
_READ = frozenset(_Request.__struct_fields__)
_fields = msgspec.json.Decoder(dict[str, Raw])
_request = msgspec.json.Decoder(_Request)


class OpenAIResponses:
    """The `Dialect` of the Responses API."""

    api = "openai.responses"
    breaks_off = True

    def takes(self, path: str) -> bool:
        """Both routes, with and without `/v1`: harnesses differ in what they take for the base of a URL."""
        return path.removesuffix(_COUNT) in _ROUTES

    def read(self, body: bytes, target: Target) -> Turn:
        """The turn of a request.

        Raises:
            Refused: 400, naming what is wrong with it or cannot be carried.
        """
        request = _decoded(body)
        conversation = Conversation(request.instructions or "")
        items = [Item(role="user", content=request.input)] if isinstance(request.input, str) else request.input
        for item in items:
            conversation.add(item)
        messages = conversation.messages()
        if not messages:
            raise bad_request("input: it is empty, and there are no instructions")
        offered = offer([*(request.tools or []), *conversation.tools])
        fields = _tool_fields(request, offered) | _format_fields(request)
        return Turn(
            model=request.model or "",
            messages=messages,
            fields=fields,
            stream=bool(request.stream),
            constrained=_constrained(request, offered) or "response_format" in fields,
            max_tokens=request.max_output_tokens,
            requested=_requested(request),
            media=conversation.media,
            count=self.counted if target.path.endswith(_COUNT) else None,
            private=_asked(request, offered),
        )

    def writer(self, turn: Turn, reply_id: str, created: int) -> Writer:
        """Words the reply to a turn that this dialect read."""
        return ResponsesWriter(turn.private, reply_id, created)

    def counted(self, tokens: int) -> bytes:
        """`{"object": "response.input_tokens", "input_tokens": n}`."""
        return encode({"object": "response.input_tokens", "input_tokens": tokens})

    def error(self, error: Refused) -> bytes:
        """`{"error": {"message", "type", "param", "code"}}`."""
        kind = "server_error" if error.status >= 500 else "invalid_request_error"
        return encode({"error": {"message": str(error), "type": kind, "param": None, "code": error.kind}})

    def error_event(self, error: Refused) -> bytes:
        """`response.failed`. Codex tries again unless the code says that this is of no use."""
        failed = ev.Response("resp_failed", 0, "", "failed", [], error=ev.Error(_code(error), str(error)))
        return ev.Failed(failed).line(0)


def _decoded(body: bytes) -> _Request:
    with reading("a Responses request"):
        names, request = _fields.decode(body), _request.decode(body)
    unknown = sorted(n for n, raw in names.items() if n not in _READ and n not in _HARMLESS and raw != _NULL)
    if request.background:
        unknown.append("background")
    if unknown:
        raise bad_request(
            f"cannot be carried: {', '.join(unknown)}. Leave it out; no response is kept here: a request holds its whole "
            "conversation as `input` and waits for the reply"
        )
    return request


def _tool_fields(request: _Request, offered: Offer) -> dict[str, Raw]:
    """What says which tools there are; the engine takes none of it without a tool."""
    choice = request.tool_choice
    if not offered.functions:
        if choice not in (None, "auto", "none"):
            raise bad_request("tool_choice: it asks for a tool, and `tools` has none that the model can be offered")
        return {}
    fields = {"tools": raw(offered.functions)}
    if choice is not None:
        fields["tool_choice"] = chosen(choice)
    if request.parallel_tool_calls is not None:
        fields["parallel_tool_calls"] = raw(request.parallel_tool_calls)
    return fields


def _format_fields(request: _Request) -> dict[str, Raw]:
    wanted = request.text.format if request.text else _TextFormat()
    if wanted.type == "text":
        return {}
    if wanted.type == "json_object":
        return {"response_format": raw({"type": "json_object"})}
    if wanted.type == "json_schema":
        schema = _JsonSchema(wanted.name, wanted.schema, wanted.strict, wanted.description)
        return {"response_format": raw({"type": "json_schema", "json_schema": schema})}
    raise bad_request(f"text.format: type {wanted.type!r} cannot be carried; use `text`, `json_object` or `json_schema`")


def _constrained(request: _Request, offered: Offer) -> bool:
    forced = request.tool_choice not in (None, "auto", "none")
    return bool(offered.functions) and (forced or (offered.strict and request.tool_choice != "none"))


def _requested(request: _Request) -> Json:
    wanted = {
        "temperature": request.temperature,
        "top_p": request.top_p,
        "max_completion_tokens": request.max_output_tokens,
        "reasoning_effort": request.reasoning.effort if request.reasoning else None,
        "verbosity": request.text.verbosity if request.text else None,
    }
    return {name: value for name, value in wanted.items() if value is not None}


def _asked(request: _Request, offered: Offer) -> Asked:
    return Asked(
        model=request.model or "",
        origins=offered.origins,
        parallel_tool_calls=request.parallel_tool_calls is not False,
        tool_choice=raw(request.tool_choice or "auto"),
        max_output_tokens=request.max_output_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
    )


def _code(error: Refused) -> str:
    """The code of a failed response: Codex gives up at the first and the last of these, and tries again at the others."""
    if error.kind == "context_length_exceeded":
        return error.kind
    if error.status >= 500:
        return "server_error"
    return "rate_limit_exceeded" if error.status == 429 else "invalid_prompt"
