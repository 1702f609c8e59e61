"""Message paths: which earlier call a request goes on from, found by its messages, however the harness re-serialised them.

What counts of a message is what the model would read of it: role, text, tool calls. Two messages are the same if only these
differ: order of keys and spelling of numbers in arguments (compared as JSON), ids of tool calls (they go by position),
reasoning (many harnesses drop it), blanks around an assistant's text, a text given as one block, cache markers.

A path is a chain of digests over the tools and what counts of all messages up to a point; equal paths are equal conversations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from services.proxy.dialects.base import Reply, ToolCall
from services.proxy.errors import bad_request
from services.proxy.seen import Seen

_SIZE = 16  # bytes of a path
_MB = 1024**2
_DEFINING = ("tools", "chat_template_kwargs", "chat_template", "documents")
"""Request fields that the template may put before the messages."""


class _Function(msgspec.Struct, frozen=True):
    name: str = ""
    arguments: str = ""


class _Call(msgspec.Struct, frozen=True):
    function: _Function = _Function()


class _Message(msgspec.Struct):
    role: str
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[_Call] | None = None


_messages = msgspec.json.Decoder(_Message)


def _number(text: str) -> float | int:
    value = float(text)
    return int(value) if value.is_integer() else value


_arguments = msgspec.json.Decoder(float_hook=_number)
_encode = msgspec.json.Encoder(order="sorted").encode  # takes integers of any size, which a model may well write


def start(fields: dict[str, msgspec.Raw]) -> bytes:
    """The path before the first message: 16 bytes over the fields that the template may put there."""
    return _start(b"".join([name.encode() + b"\0" + raw + b"\0" for name in _DEFINING if (raw := fields.get(name))]))


def nodes(at: bytes, messages: Iterable[msgspec.Raw]) -> list[bytes]:
    """The path after each of some OpenAI chat messages (raw JSON), beginning at the path `at`.

    Raises:
        Refused: 400, one is nested too deeply.
    """
    found = []
    for raw in messages:
        at = _after(at + raw)
        found.append(at)
    return found


def after_reply(at: bytes, reply: Reply) -> bytes:
    """The path after an assistant's reply."""
    return _hash(at + _counted("assistant", reply.content.strip(), reply.tool_calls))


def counted(raw: msgspec.Raw | bytes) -> bytes:
    """What counts of an OpenAI chat message (raw JSON), in one spelling.

    Raises:
        Refused: 400, it is nested too deeply.
    """
    try:
        message = _messages.decode(raw)
        calls = [call.function for call in message.tool_calls] if message.tool_calls else ()
        content = _content(message.content)
        if message.role == "assistant" and isinstance(content, str):
            content = content.strip()
        return _counted(message.role, content, calls)
    except RecursionError:
        raise bad_request("messages: one is nested too deeply") from None


def _counted(role: str, content: Any, calls: Sequence[_Function | ToolCall]) -> bytes:
    return _encode((role, content, [(call.name, _canonical(call.arguments)) for call in calls]))


def _content(content: str | list[dict[str, Any]] | None) -> Any:
    if content is None or isinstance(content, str):
        return content or ""
    parts = [part.get("text") if part.get("type") == "text" else _bare(part) for part in content]
    return parts[0] if len(parts) == 1 else parts or ""


def _bare(part: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in part.items() if name != "cache_control"}


def _canonical(arguments: str) -> str:
    """Arguments as JSON in one spelling, or as the text that they are; none are an empty object."""
    text = arguments.strip()
    try:
        return _encode(_arguments.decode(text or "{}")).decode()
    except (msgspec.DecodeError, RecursionError, OverflowError):
        return text


def _hash(data: bytes) -> bytes:
    return blake2b(data, digest_size=_SIZE).digest()


def _node(text: bytes) -> bytes:
    """The path behind a message; `text` is the path before it, and the message."""
    return _hash(text[:_SIZE] + counted(text[_SIZE:]))


_start = Seen(_hash, most=4 * _MB)
_after = Seen(_node, most=8 * _MB)
