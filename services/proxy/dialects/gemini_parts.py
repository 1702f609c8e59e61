"""What Gemini's conversations are made of. A field that is not named here, such as `fileData` or `executableCode`, is refused
by its name."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Raw

NOTHING = Raw()


class Blob(msgspec.Struct, rename="camel"):
    """Media inside the request, base64."""

    mime_type: str
    data: str


class ResponsePart(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Media in what a function answered."""

    inline_data: Blob


class FunctionCall(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """A function call."""

    name: str
    args: dict[str, Raw] = {}
    id: str | None = None


class FunctionResponse(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """What a function answered."""

    name: str
    response: dict[str, Raw] = {}
    id: str | None = None
    parts: list[ResponsePart] = []


class Part(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """One of: text (a thought if so marked), media, a call, an answer. The fields of the second block are accepted and have no
    effect: a signature is for the server that made it, and the engine takes media as they are."""

    text: str | None = None
    thought: bool | None = None
    inline_data: Blob | None = None
    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None

    thought_signature: Raw = NOTHING
    media_resolution: Raw = NOTHING
    part_metadata: Raw = NOTHING


class Content(msgspec.Struct):
    """One side's say: the model's, or the user's and that of the user's functions."""

    parts: list[Part] = []
    role: Literal["user", "model", "function"] = "user"
