"""OpenAI chat completions. The engine speaks it too, so its replies are passed on byte for byte."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import orjson
from msgspec import Meta

from services.proxy.dialects.base import Turn
from services.proxy.errors import Refused, bad_request
from services.proxy.sampling import NULL, SAMPLING_FIELDS

_Tokens = Annotated[int, Meta(ge=1)]
_GRAMMARS = ("structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar")


class _Format(msgspec.Struct):
    type: str = "text"


class _Function(msgspec.Struct):
    strict: bool | None = None


class _Tool(msgspec.Struct):
    function: _Function | None = None


class _Request(msgspec.Struct):
    """The fields that matter here; all others are the engine's to judge."""

    messages: Annotated[list[msgspec.Raw], Meta(min_length=1)]
    model: str | None = None
    stream: bool | None = None
    n: int | None = None
    max_tokens: _Tokens | None = None
    max_completion_tokens: _Tokens | None = None
    tool_choice: str | dict[str, Any] | None = None
    response_format: _Format | None = None
    tools: list[_Tool] | None = None


_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_request = msgspec.json.Decoder(_Request)


class OpenAIChat:
    """`POST /v1/chat/completions`."""

    api = "openai.chat"

    def read(self, body: bytes) -> Turn:
        """The turn of a chat request; all of it but the fields above is left unparsed."""
        try:
            fields, request = _fields.decode(body), _request.decode(body)
        except msgspec.ValidationError as e:
            raise bad_request(f"not a chat completions request: {e}") from None
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as e:
            raise bad_request(f"the body is not valid JSON: {e}") from None
        if request.n not in (None, 1):
            raise bad_request(f"n={request.n}: one reply per call is recorded here; ask for n=1 and call again for more")
        limits = [m for m in (request.max_tokens, request.max_completion_tokens) if m is not None]
        return Turn(
            body=fields,
            model=request.model or "",
            stream=bool(request.stream),
            constrained=_constrained(request, fields),
            max_tokens=min(limits, default=None),
            requested={name: msgspec.json.decode(fields[name]) for name in SAMPLING_FIELDS if name in fields},
        )

    def error(self, error: Refused) -> bytes:
        """`{"error": {"message", "type", "param", "code"}}`."""
        kind = "server_error" if error.status >= 500 else "invalid_request_error"
        return orjson.dumps({"error": {"message": str(error), "type": kind, "param": None, "code": error.kind}})

    def error_event(self, error: Refused) -> bytes:
        """The error body as one event; no `[DONE]` follows."""
        return b"data: " + self.error(error) + b"\n\n"


def _constrained(request: _Request, fields: dict[str, msgspec.Raw]) -> bool:
    forced = isinstance(request.tool_choice, dict) or request.tool_choice == "required"
    # vLLM samples the arguments of strict tools under a grammar, even when the choice of the tool is free
    strict = request.tool_choice != "none" and any(t.function and t.function.strict for t in request.tools or ())
    formatted = request.response_format is not None and request.response_format.type != "text"
    return forced or strict or formatted or any(fields[g] != NULL for g in _GRAMMARS if g in fields)
