"""The OpenAI chat terms that the translating dialects put a request in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from msgspec import Raw

from services.proxy.errors import bad_request

encode = msgspec.json.Encoder().encode
"""JSON of anything here, as bytes."""

Schema = dict[str, Raw]
"""A JSON schema, read no further than its keywords."""


class TextPart(msgspec.Struct, frozen=True, tag="text"):
    """Text in a message."""

    text: str


class ImageUrl(msgspec.Struct, frozen=True):
    """Where an image is: `http(s):` or `data:`."""

    url: str


class ImagePart(msgspec.Struct, frozen=True, tag="image_url"):
    """An image in a message."""

    image_url: ImageUrl


Part = TextPart | ImagePart


class CalledFunction(msgspec.Struct, frozen=True):
    """What a tool call calls; `arguments` is JSON text."""

    name: str
    arguments: str


class Call(msgspec.Struct, frozen=True, tag="function"):
    """A tool call of an assistant message."""

    id: str
    function: CalledFunction


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """A chat message of any role; fields that its role does not have are left out of the JSON."""

    role: str
    content: str | list[Part]
    reasoning: str = ""
    tool_calls: list[Call] = []
    tool_call_id: str = ""


class Function(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool's name and what it takes (`parameters`: JSON schema)."""

    name: str
    description: str | None = None
    parameters: Schema | None = None
    strict: bool | None = None


class Tool(msgspec.Struct, frozen=True, tag="function"):
    """A tool that the model may call."""

    function: Function


def raw(term: object) -> Raw:
    """A term as the JSON that goes to the engine."""
    return Raw(encode(term))


def content(parts: list[Part]) -> str | list[Part]:
    """The content of a message.

    Text alone becomes one string, its parts on lines of their own, as vLLM joins them: a harness may send one block as a string
    now and as a list of one block later, and it is the same message.
    """
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    return "\n".join(texts) if len(texts) == len(parts) else parts


def json_schema(schema: Schema) -> Raw:
    """`response_format` for replies that match a JSON schema."""
    return raw({"type": "json_schema", "json_schema": {"name": "reply", "schema": schema, "strict": True}})


def named_choice(name: str) -> Raw:
    """`tool_choice` for a call of one tool and no other."""
    return raw({"type": "function", "function": {"name": name}})


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Words what msgspec finds wrong with a request.

    Args:
        what: that the request should be, with its article: "a Messages request".

    Raises:
        Refused: 400, with the path of the field or the name of what is not known.
    """
    try:
        yield
    except msgspec.ValidationError as e:
        raise bad_request(f"not {what} that can be carried: {e}") from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as e:
        raise bad_request(f"the body is not valid JSON: {e}") from None
