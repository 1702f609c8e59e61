"""A Responses request as chat messages and engine fields.

The items of one model turn (reasoning, messages of the assistant, calls) become one assistant message, as the model wrote it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
from msgspec import Raw

from services.proxy.dialects import terms
from services.proxy.dialects.arguments import as_text
from services.proxy.dialects.responses_custom import wrap
from services.proxy.dialects.responses_sealed import is_sealed, unseal
from services.proxy.dialects.responses_tools import SEARCH, Tool, function_name, function_names
from services.proxy.dialects.terms import Call, CalledFunction, ImagePart, ImageUrl, Message, TextPart
from services.proxy.errors import bad_request

_ROLES = {"user": "user", "system": "system", "developer": "system"}


class Part(msgspec.Struct):
    """A part of a message, of a tool's output or of reasoning. An image's `detail` is for the API's own scaling of it."""

    type: str
    text: str = ""
    image_url: str | None = None


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
    arguments: str | dict[str, Raw] = ""
    input: str = ""
    output: str | list[Part] = ""
    tools: list[Tool] = []


@dataclass(slots=True)
class _Turn:
    """What the model wrote in one turn, as far as its items have come."""

    reasoning: str = ""
    content: str = ""
    calls: list[Call] = field(default_factory=list)


class Conversation:
    """Chat messages, made from items in their order.

    Attributes:
        media: a message holds an image.
        tools: tools that items offer, beside those of the request.
    """

    def __init__(self, instructions: str) -> None:
        self.media = False
        self.tools: list[Tool] = []
        self._messages: list[Raw] = []
        self._turn: _Turn | None = None
        self._images: list[terms.Part] = []
        if instructions:
            self._append(Message("system", instructions))

    def add(self, item: Item) -> None:
        """Takes in the next item.

        Raises:
            Refused: it is of a type, or has a part, that cannot be carried.
        """
        read = _READERS.get(item.type)
        if read is None:
            raise bad_request(f"input: an item of type {item.type!r} cannot be carried")
        read(self, item)

    def messages(self) -> list[Raw]:
        """The messages of all items, each as raw JSON; none may be added after this."""
        self._end_turn()
        self._end_outputs()
        return self._messages

    def _message(self, item: Item) -> None:
        content = self._content(item.content or "")
        if item.role == "assistant":
            if not isinstance(content, str):
                raise bad_request("input: an image in a message of the assistant cannot be carried")
            self._assistant().content += content
        elif item.role in _ROLES:
            self._append(Message(_ROLES[item.role], content))
        else:
            raise bad_request(f"input: a message has the role {item.role!r}")

    def _reasoning(self, item: Item) -> None:
        sealed = item.encrypted_content or ""
        parts = item.content if isinstance(item.content, list) else []
        shown = "".join(p.text for p in parts) or "\n\n".join(p.text for p in item.summary)
        self._assistant().reasoning += unseal(sealed) if is_sealed(sealed) or (sealed and not shown) else shown

    def _function_call(self, item: Item) -> None:
        self._call(item, function_name(item.name, item.namespace), _arguments(item))

    def _custom_call(self, item: Item) -> None:
        self._call(item, function_name(item.name, item.namespace), wrap(item.input))

    def _search_call(self, item: Item) -> None:
        self._call(item, SEARCH, _arguments(item))

    def _call(self, item: Item, name: str, arguments: str) -> None:
        if not name:
            raise bad_request(f"input: an item of type {item.type!r} has no name")
        self._assistant().calls.append(Call(_call_id(item), CalledFunction(name, arguments)))

    def _output(self, item: Item) -> None:
        """A tool's output; its images follow in a user message after the last output: tool messages hold text only."""
        content = self._content(item.output)
        images: list[terms.Part] = []
        if not isinstance(content, str):
            images = [p for p in content if isinstance(p, ImagePart)]
            content = terms.content([p for p in content if isinstance(p, TextPart)])
        self._append(Message("tool", content, tool_call_id=_call_id(item)))
        self._images += images

    def _found(self, item: Item) -> None:
        """Tools that a search found: from here on they are offered as all others are, so their names do for an output."""
        names = ", ".join(function_names(item.tools)) or "none"
        said = f"Tools that were found and can be called now: {names}"
        self._append(Message("tool", said, tool_call_id=_call_id(item)))
        self._offer(item)

    def _offer(self, item: Item) -> None:
        self.tools += item.tools

    def _assistant(self) -> _Turn:
        self._end_outputs()
        if self._turn is None:
            self._turn = _Turn()
        return self._turn

    def _append(self, message: Message) -> None:
        self._end_turn()
        if message.role != "tool":
            self._end_outputs()
        self._messages.append(terms.raw(message))

    def _end_turn(self) -> None:
        if self._turn is not None:
            turn, self._turn = self._turn, None
            self._messages.append(terms.raw(Message("assistant", turn.content, turn.reasoning, turn.calls)))

    def _end_outputs(self) -> None:
        if self._images:
            self._messages.append(terms.raw(Message("user", self._images)))
            self._images = []

    def _content(self, content: str | list[Part]) -> str | list[terms.Part]:
        if isinstance(content, str):
            return content
        parts = [_part(p) for p in content]
        self.media = self.media or any(isinstance(p, ImagePart) for p in parts)
        return terms.content(parts)


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


def _arguments(item: Item) -> str:
    return item.arguments if isinstance(item.arguments, str) else as_text(terms.raw(item.arguments))


def _part(part: Part) -> terms.Part:
    if part.type in ("input_text", "output_text", "text"):
        return TextPart(part.text)
    if part.type == "input_image" and part.image_url:
        return ImagePart(ImageUrl(part.image_url))
    if part.type == "input_image":
        raise bad_request("input: an image given by its `file_id` cannot be carried; send it as `image_url`")
    raise bad_request(f"input: a part of type {part.type!r} cannot be carried")
