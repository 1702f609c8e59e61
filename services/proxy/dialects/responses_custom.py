"""Custom (freeform) tools as functions: a custom tool takes raw text, the engine's chat knows only arguments in JSON.

So the model is offered a function with one string, `input`. What it writes is unwrapped for the harness, and wrapped again when
it comes back in the history, so that it compares JSON-equal to what the model wrote. Arguments that are not such an object
reach the harness as they are, and its own parser judges them.
"""

from __future__ import annotations

import re

import msgspec

from services.proxy.dialects.terms import Schema, encode, raw


class Format(msgspec.Struct):
    """What the text must look like: `type` is `text`, or `grammar` with a `syntax` (`lark`, `regex`) and a `definition`."""

    type: str = "text"
    syntax: str = ""
    definition: str = ""


class _Wrapped(msgspec.Struct, forbid_unknown_fields=True):
    input: str


PARAMETERS: Schema = {
    "type": raw("object"),
    "properties": raw({"input": {"type": "string", "description": "The text that the tool takes."}}),
    "required": raw(["input"]),
    "additionalProperties": raw(False),
}
"""JSON schema of the function that stands for a custom tool."""

_wrapped = msgspec.json.Decoder(_Wrapped)
_string = msgspec.json.Decoder(str)
_HEAD = re.compile(r'[ \t\r\n]*\{[ \t\r\n]*"input"[ \t\r\n]*:[ \t\r\n]*"')
# Of a JSON string; both halves of a surrogate pair at once. Not with possessive repeats: Debian 12's Python gets those wrong.
_WHOLE_CHARACTERS = re.compile(
    r"""(?:[^"\\\x00-\x1f]+|\\(?:["\\/bfnrt]|u(?![dD][89a-fA-F])[0-9a-fA-F]{4}"""
    r"""|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}))*"""
)


def described(description: str, wanted: Format | None) -> str:
    """A custom tool's description, and how to give it its text. A grammar is for the model to read; nothing enforces it."""
    if wanted is None or wanted.type == "text":
        how = "Give it its text as the string `input`."
    else:
        how = f"Give it its text as the string `input`, which must match this {wanted.syntax} grammar:\n{wanted.definition}"
    return f"{description}\n\n{how}".lstrip()


def wrap(text: str) -> str:
    """The arguments of a call whose text this is."""
    return encode(_Wrapped(text)).decode()


def unwrap(arguments: str) -> str:
    """The text in the arguments of a call; the arguments themselves where they are no such object."""
    try:
        return _wrapped.decode(arguments).input
    except msgspec.DecodeError:
        return arguments


class Unwrapper:
    """Unwraps arguments as they come. Joined, what it gives is `unwrap` of them, or a beginning of it.

    Of arguments that turn out to be malformed it gives what could be read; of those, `unwrap` is what counts in the end.
    """

    def __init__(self) -> None:
        self._in_text = False
        self._pending = ""

    def feed(self, more: str) -> str:
        """The text that an increment of the arguments adds, as far as its characters are whole."""
        self._pending += more
        if not self._in_text:
            head = _HEAD.match(self._pending)
            if head is None:
                return ""
            self._in_text = True
            self._pending = self._pending[head.end() :]
        read = _WHOLE_CHARACTERS.match(self._pending)
        if read is None or not read.end():
            return ""
        self._pending = self._pending[read.end() :]
        return _string.decode(f'"{read.group()}"')
