"""Tool arguments between the text that a model wrote and the JSON object that some APIs want in its place."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from services.proxy.dialects.terms import encode

_object = msgspec.json.Decoder(dict[str, Raw])


class _Unparsed(msgspec.Struct, forbid_unknown_fields=True):
    raw: str
    len: int


class _Input(msgspec.Struct, forbid_unknown_fields=True, rename={"unparsed": "__unparsedToolInput"}):
    """How Claude Code keeps arguments that are not JSON: `raw` has at most 2,048 characters of them, `len` counts all."""

    unparsed: _Unparsed


_input = msgspec.json.Decoder(_Input)
_MARK = b'{"__unparsedToolInput":'


def is_object(text: str) -> bool:
    """Whether a text is one JSON object."""
    if not text.rstrip().endswith("}"):
        return False
    try:
        _object.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def as_object(arguments: str) -> Raw:
    """Arguments as a JSON object, on one line: it may go into a server-sent event.

    No text is an empty object. A text that is not an object, such as one that a length limit cut, goes whole into one as Claude
    Code would put it: that harness then tells the model what is wrong, another that required fields are missing, and nothing of
    what the model wrote is lost. `as_text` takes it out again when the harness sends it back.
    """
    if is_object(arguments):
        return Raw(msgspec.json.format(arguments.encode(), indent=-1))
    if not arguments.strip():
        return Raw(b"{}")
    return Raw(encode(_Input(_Unparsed(arguments, _length(arguments)))))


def as_text(arguments: Raw) -> str:
    """The text that arguments in a harness's history stand for: their JSON, or what the model wrote in place of JSON. Of a long
    text of that kind Claude Code keeps the beginning alone; nothing can be made of that, and it stays JSON.

    Raises:
        UnicodeDecodeError: they are not UTF-8.
    """
    text = bytes(arguments)
    if text.startswith(_MARK):
        try:
            unparsed = _input.decode(text).unparsed
        except msgspec.ValidationError:  # a tool may have a field of that name
            return text.decode()
        if unparsed.len == _length(unparsed.raw):
            return unparsed.raw
    return text.decode()


def _length(text: str) -> int:
    """Characters as JavaScript counts them."""
    return len(text.encode("utf-16-le")) // 2
