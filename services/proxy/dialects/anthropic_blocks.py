"""Content blocks of Anthropic's messages, in requests and in replies. Fields that nothing here needs, such as `cache_control`,
are not read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec
from msgspec import Raw

BlockT = TypeVar("BlockT")


class Text(msgspec.Struct, frozen=True, tag="text"):
    """Text."""

    text: str


class Base64Source(msgspec.Struct, frozen=True, tag="base64"):
    """An image inside the request."""

    media_type: str
    data: str

    @property
    def address(self) -> str:
        """A `data:` URL."""
        return f"data:{self.media_type};base64,{self.data}"


class UrlSource(msgspec.Struct, frozen=True, tag="url"):
    """An image somewhere else."""

    url: str

    @property
    def address(self) -> str:
        """Where it is."""
        return self.url


class Image(msgspec.Struct, frozen=True, tag="image"):
    """An image."""

    source: Base64Source | UrlSource


class Thinking(msgspec.Struct, frozen=True, tag="thinking"):
    """What the model thought. The signature is opaque to harnesses, which send it back."""

    thinking: str
    signature: str = ""


class RedactedThinking(msgspec.Struct, frozen=True, tag="redacted_thinking"):
    """Thinking that another server had encrypted: no model here could read it."""


class ToolUse(msgspec.Struct, frozen=True, tag="tool_use"):
    """A tool call; `input` is a JSON object in replies, and what Claude Code made of the arguments in requests: any JSON."""

    id: str
    name: str
    input: Raw


class ToolReference(msgspec.Struct, frozen=True, tag="tool_reference"):
    """Names a tool that a search for tools found; from here on it is one of the tools."""

    tool_name: str


class ToolResult(msgspec.Struct, frozen=True, tag="tool_result"):
    """What a tool answered. `is_error` is not read: a model here has no place for it but the text, which says it."""

    tool_use_id: str
    content: str | list[Text | Image | ToolReference] | None = None


def spelled(content: str | list[BlockT]) -> Sequence[BlockT | Text]:
    """Content as blocks: a string stands for one of text."""
    return [Text(content)] if isinstance(content, str) else content
