"""A reply in the words of Anthropic's Messages API."""

from __future__ import annotations

import base64

import msgspec
from msgspec import Raw

from services.proxy.dialects.anthropic_blocks import Text, Thinking, ToolUse
from services.proxy.dialects.arguments import as_object, is_object
from services.proxy.dialects.base import Delta, Reply, ToolDelta
from services.proxy.dialects.terms import encode

_THINKING, _TEXT = "thinking", "text"
_EMPTY: dict[str, Text | Thinking] = {_THINKING: Thinking(""), _TEXT: Text("")}
_NO_INPUT = Raw(b"{}")

_INCREMENT = 'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":"%s","%s":'
_FIELDS: dict[str | int, tuple[str, str]] = {_THINKING: ("thinking_delta", "thinking"), _TEXT: ("text_delta", "text")}
_INPUT = ("input_json_delta", "partial_json")


class _Usage(msgspec.Struct):
    """The whole prompt counts as input, also what the prefix cache held: `message_start` comes before that is known, and
    clients add the figures up."""

    input_tokens: int
    output_tokens: int
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0


class _Message(msgspec.Struct):
    id: str
    model: str
    content: list[Text | Thinking | ToolUse]
    usage: _Usage
    stop_reason: str | None = None
    stop_sequence: str | None = None
    type: str = "message"
    role: str = "assistant"


class MessagesWriter:
    """Words one reply.

    Only one block can be open at a time, and one that was closed cannot be added to. So an increment for another block closes
    the open one, unless that is a call whose arguments are not whole yet: then it waits, with all that follows it except the
    call's own arguments, and `finish` tells it. Engines write one call after another; waiting is for one that does not.

    Args:
        model: name that the harness asked for.
        reply_id: of the reply.
    """

    def __init__(self, model: str, reply_id: str) -> None:
        self._model = model
        self._id = f"msg_{reply_id}"
        self._signature = base64.b64encode(reply_id.encode()).decode()
        self._index = -1  # of the block that was begun last
        self._open: str | int | None = None  # a kind, or the index of a call
        self._prefix = b""  # of the open block's increments
        self._arguments: list[str] = []  # of the open block, if it is a call
        self._waiting = False
        self._told = {_THINKING: 0, _TEXT: 0}  # characters
        self._calls: dict[int, str] = {}  # ids of the calls that were begun, by index

    def start(self, prompt_tokens: int) -> bytes:
        """`message_start`."""
        return _event("message_start", message=_Message(self._id, self._model, [], _Usage(prompt_tokens, 0)))

    def add(self, delta: Delta) -> bytes:
        """The increment in its block, which it may begin, and end the one before."""
        events = b""
        if delta.reasoning:
            events += self._say(_THINKING, delta.reasoning)
        if delta.content:
            events += self._say(_TEXT, delta.content)
        for tool in delta.tools:
            events += self._call(tool)
        return events

    def finish(self, reply: Reply) -> bytes:
        """What had to wait, `message_delta` and `message_stop`."""
        end = {"stop_reason": _stop_reason(reply), "stop_sequence": reply.stop_sequence}
        usage = _Usage(reply.usage.prompt, reply.usage.completion)
        return self._rest(reply) + _event("message_delta", delta=end, usage=usage) + _event("message_stop")

    def whole(self, reply: Reply) -> bytes:
        """The message object."""
        content: list[Text | Thinking | ToolUse] = []
        if reply.reasoning:
            content.append(Thinking(reply.reasoning, self._signature))
        if reply.content:
            content.append(Text(reply.content))
        # A stream gives malformed arguments as they are, for the harness to judge. Here the format asks for an object.
        content += [ToolUse(call.id, call.name, as_object(call.arguments)) for call in reply.tool_calls]
        usage = _Usage(reply.usage.prompt, reply.usage.completion)
        return encode(_Message(self._id, self._model, content, usage, _stop_reason(reply), reply.stop_sequence))

    def _say(self, kind: str, text: str) -> bytes:
        events = b""
        if self._open != kind:
            if not self._may_close():
                return b""
            events = self._begin(kind, _EMPTY[kind])
        self._told[kind] += len(text)
        return events + self._increment(text)

    def _call(self, tool: ToolDelta) -> bytes:
        events = b""
        if self._open != tool.index:
            # nothing but white space can follow the whole object that let a call be closed
            if tool.index in self._calls or not self._may_close():
                return b""
            events = self._begin(tool.index, ToolUse(tool.id, tool.name, _NO_INPUT))
            self._calls[tool.index] = tool.id
        self._arguments.append(tool.arguments)
        return events + self._increment(tool.arguments)

    def _rest(self, reply: Reply) -> bytes:
        self._waiting = False
        events = self._close()
        for kind, text in ((_THINKING, reply.reasoning), (_TEXT, reply.content)):
            if rest := text[self._told[kind] :]:
                events += self._say(kind, rest)
        for at, call in enumerate(reply.tool_calls):
            if call.id not in self._calls.values():
                events += self._begin(at, ToolUse(call.id, call.name, _NO_INPUT)) + self._increment(call.arguments)
        return events + self._close()

    def _may_close(self) -> bool:
        self._waiting = self._waiting or (isinstance(self._open, int) and not is_object("".join(self._arguments)))
        return not self._waiting

    def _begin(self, what: str | int, block: Text | Thinking | ToolUse) -> bytes:
        """Closes the open block and begins another: of a kind, or the call of an index."""
        events = self._close()
        self._index += 1
        self._open = what
        self._arguments = []
        self._prefix = (_INCREMENT % (self._index, *_FIELDS.get(what, _INPUT))).encode()
        return events + _event("content_block_start", index=self._index, content_block=block)

    def _increment(self, text: str) -> bytes:
        return self._prefix + encode(text) + b"}}\n\n" if text else b""

    def _close(self) -> bytes:
        if self._open is None:
            return b""
        events = b""
        if self._open == _THINKING:
            signature = {"type": "signature_delta", "signature": self._signature}
            events = _event("content_block_delta", index=self._index, delta=signature)
        self._open = None
        return events + _event("content_block_stop", index=self._index)


def _stop_reason(reply: Reply) -> str:
    if reply.finish_reason == "length":
        return "max_tokens"
    if reply.tool_calls:
        return "tool_use"
    return "end_turn" if reply.stop_sequence is None else "stop_sequence"


def _event(name: str, **fields: object) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + encode({"type": name} | fields) + b"\n\n"
