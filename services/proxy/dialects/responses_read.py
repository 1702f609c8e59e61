"""A Responses request as chat messages and engine fields.

The items of one model turn (reasoning, messages of the assistant, calls) become one assistant message, as the model wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from services.proxy.dialects.responses_custom import wrap
from services.proxy.dialects.responses_sealed import is_sealed, unseal
from services.proxy.dialects.responses_tools import SEARCH, Tool, as_text, function_name, function_names
from services.proxy.errors import bad_request

_ROLES = {"user": "user", "system": "system", "developer": "system"}
_DETAILS = {"original": "high"}  # chat has no name for it


class Part(msgspec.Struct):
    """A part of a message, of a tool's output or of reasoning."""

    type: str
    text: str = ""
    image_url: str | None = None
    detail: str | None = None


class Item(msgspec.Struct):
    """An input item; what a type does not have stays at its default, and ids and status of items say nothing here."""

    type: str = "message"
    role: str = ""
    content: str | list[Part] | None = None
    summary: list[Part] = []
    encrypted_content: str | None = None
    call_id: str = ""
    name: str = ""
    namespace: str | None = None
    arguments: str | dict[str, msgspec.Raw] = ""
    input: str = ""
    output: str | list[Part] = ""
    tools: list[Tool] = []


class _ImageUrl(msgspec.Struct, omit_defaults=True):
    url: str
    detail: str = ""


class _ImagePart(msgspec.Struct):
    image_url: _ImageUrl
    type: str = "image_url"


class _TextPart(msgspec.Struct):
    text: str
    type: str = "text"


class _Called(msgspec.Struct):
    name: str
    arguments: str


class _Call(msgspec.Struct):
    id: str
    function: _Called
    type: str = "function"


_ChatPart = _TextPart | _ImagePart
_Content = str | Sequence[_ChatPart]


class _Message(msgspec.Struct, omit_defaults=True):
    role: str
    content: _Content
    tool_call_id: str = ""


class _Assistant(msgspec.Struct, tag_field="role", tag="assistant", omit_defaults=True):
    content: str
    reasoning: str = ""
    tool_calls: list[_Call] = []


class Conversation:
    """Chat messages, made from items in their order.

    Attributes:
        media: a message holds an image.
        tools: tools that items offer, beside those of the request.
    """

    def __init__(self, instructions: str) -> None:
        self.media = False
        self.tools: list[Tool] = []
        self._messages: list[_Message | _Assistant] = [_Message("system", instructions)] if instructions else []
        self._images: list[_ImagePart] = []

    def add(self, item: Item) -> None:
        """Takes in the next item.

        Raises:
            Refused: it is of a type, or has a part, that cannot be carried.
        """
        read = _READERS.get(item.type)
        if read is None:
            raise bad_request(f"input: an item of type {item.type!r} cannot be carried")
        read(self, item)

    def messages(self) -> list[msgspec.Raw]:
        """The messages so far, each as raw JSON."""
        self._flush_images()
        return [msgspec.Raw(msgspec.json.encode(m)) for m in self._messages]

    def _message(self, item: Item) -> None:
        content = self._content(item.content or "")
        if item.role == "assistant":
            self._assistant().content += _text(content)
        elif item.role in _ROLES:
            self._append(_Message(_ROLES[item.role], content))
        else:
            raise bad_request(f"input: a message has the role {item.role!r}")

    def _reasoning(self, item: Item) -> None:
        sealed = item.encrypted_content or ""
        parts = item.content if isinstance(item.content, list) else []
        shown = "".join(p.text for p in parts) or "\n\n".join(p.text for p in item.summary)
        self._assistant().reasoning += unseal(sealed) if is_sealed(sealed) or (sealed and not shown) else shown

    def _function_call(self, item: Item) -> None:
        self._call(item, function_name(item.name, item.namespace), as_text(item.arguments))

    def _custom_call(self, item: Item) -> None:
        self._call(item, function_name(item.name, item.namespace), wrap(item.input))

    def _search_call(self, item: Item) -> None:
        self._call(item, SEARCH, as_text(item.arguments))

    def _call(self, item: Item, name: str, arguments: str) -> None:
        if not name:
            raise bad_request(f"input: an item of type {item.type!r} has no name")
        self._assistant().tool_calls.append(_Call(_call_id(item), _Called(name, arguments)))

    def _output(self, item: Item) -> None:
        """A tool's output; its images follow in a user message after the last output: tool messages hold text only."""
        content = self._content(item.output)
        if not isinstance(content, str):
            self._images += [p for p in content if isinstance(p, _ImagePart)]
            content = _content([p for p in content if isinstance(p, _TextPart)])
        self._append(_Message("tool", content, _call_id(item)))

    def _found(self, item: Item) -> None:
        """Tools that a search found: from here on they are offered as all others are, so their names do for an output."""
        names = ", ".join(function_names(item.tools)) or "none"
        self._append(_Message("tool", f"Tools that were found and can be called now: {names}", _call_id(item)))
        self._offer(item)

    def _offer(self, item: Item) -> None:
        self.tools += item.tools

    def _assistant(self) -> _Assistant:
        last = self._messages[-1] if self._messages else None
        if not isinstance(last, _Assistant):
            last = _Assistant("")
            self._append(last)
        return last

    def _append(self, message: _Message | _Assistant) -> None:
        if isinstance(message, _Assistant) or message.role != "tool":
            self._flush_images()
        self._messages.append(message)

    def _flush_images(self) -> None:
        if self._images:
            self._messages.append(_Message("user", self._images))
            self._images = []

    def _content(self, content: str | list[Part]) -> _Content:
        if isinstance(content, str):
            return content
        parts = [_part(p) for p in content]
        self.media = self.media or any(isinstance(p, _ImagePart) for p in parts)
        return _content(parts)


_READERS: dict[str, Callable[[Conversation, Item], None]] = {
    "message": Conversation._message,
    "reasoning": Conversation._reasoning,
    "function_call": Conversation._function_call,
    "custom_tool_call": Conversation._custom_call,
    "tool_search_call": Conversation._search_call,
    "function_call_output": Conversation._output,
    "custom_tool_call_output": Conversation._output,
    "tool_search_output": Conversation._found,
    "additional_tools": Conversation._offer,
}


def _call_id(item: Item) -> str:
    if not item.call_id:
        raise bad_request(f"input: an item of type {item.type!r} has no call_id")
    return item.call_id


def _part(part: Part) -> _ChatPart:
    if part.type in ("input_text", "output_text", "text"):
        return _TextPart(part.text)
    if part.type == "input_image" and part.image_url:
        return _ImagePart(_ImageUrl(part.image_url, _DETAILS.get(part.detail or "", part.detail or "")))
    if part.type == "input_image":
        raise bad_request("input: an image given by its `file_id` cannot be carried; send it as `image_url`")
    raise bad_request(f"input: a part of type {part.type!r} cannot be carried")


def _content(parts: Sequence[_ChatPart]) -> _Content:
    """Text alone as a string, which every template takes."""
    if not parts:
        return ""
    if len(parts) == 1 and isinstance(parts[0], _TextPart):
        return parts[0].text
    return parts


def _text(content: _Content) -> str:
    if isinstance(content, str):
        return content
    if any(isinstance(p, _ImagePart) for p in content):
        raise bad_request("input: an image in a message of the assistant cannot be carried")
    return "".join(p.text for p in content if isinstance(p, _TextPart))
