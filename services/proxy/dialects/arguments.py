"""Tool arguments between the text that a model wrote and the JSON object that some APIs want in its place."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from services.proxy.dialects.terms import encode

_MALFORMED = "malformed_arguments"
_KEY = f'"{_MALFORMED}"'.encode()

_object = msgspec.json.Decoder(dict[str, Raw])
_string = msgspec.json.Decoder(str)


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
    """Arguments as a JSON object.

    No text is an empty object. A text that is not an object, such as one that a length limit cut, goes whole into an object
    with one field: the harness then tells the model that required fields are missing and an unknown one is there, and nothing
    of what the model wrote is lost. `as_text` takes it out again when the harness sends it back.
    """
    if is_object(arguments):
        return Raw(arguments.encode())
    return Raw(encode({_MALFORMED: arguments} if arguments.strip() else {}))


def as_text(arguments: Raw) -> str:
    """The text that a JSON object of arguments in a harness's history stands for.

    Raises:
        msgspec.ValidationError: it is not an object.
    """
    text = bytes(arguments)
    if _KEY in text or not text.startswith(b"{"):
        fields = _object.decode(text)
        if fields.keys() == {_MALFORMED} and bytes(fields[_MALFORMED]).startswith(b'"'):
            return _string.decode(fields[_MALFORMED])
    return text.decode()
