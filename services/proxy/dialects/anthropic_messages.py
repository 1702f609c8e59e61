"""Anthropic's conversation as OpenAI chat messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from services.proxy.dialects.anthropic_blocks import (
    Image,
    RedactedThinking,
    Text,
    Thinking,
    ToolReference,
    ToolResult,
    ToolUse,
    spelled,
)
from services.proxy.dialects.arguments import as_text
from services.proxy.dialects.terms import Call, CalledFunction, ImagePart, ImageUrl, Message, Part, TextPart, content


class User(msgspec.Struct, tag_field="role", tag="user"):
    """What the user and the tools say."""

    content: str | list[Text | Image | ToolResult]


class Assistant(msgspec.Struct, tag_field="role", tag="assistant"):
    """What the model had said."""

    content: str | list[Text | Thinking | RedactedThinking | ToolUse]


class System(msgspec.Struct, tag_field="role", tag="system"):
    """An instruction in the middle of the conversation; Claude Code gives some."""

    content: str | list[Text]


Said = User | Assistant | System


def system_message(said: str | list[Text]) -> Message:
    """The instruction as one message."""
    blocks = [Text(said)] if isinstance(said, str) else said
    return Message(role="system", content="\n".join(block.text for block in blocks))


def chat_messages(said: Said) -> Iterator[Message]:
    """A message in chat terms: one, or for tool results one each and then what the user says besides."""
    if isinstance(said, System):
        yield system_message(said.content)
    elif isinstance(said, Assistant):
        yield _assistant_message(said)
    else:
        yield from _user_messages(said)


def _user_messages(said: User) -> Iterator[Message]:
    """Tool results come first, as they do in what Anthropic takes. Images in them go to the user's message: few chat templates
    have a place for one in a tool's."""
    rest: list[Part] = []
    results = 0
    for block in spelled(said.content):
        if isinstance(block, ToolResult):
            parts = _parts(spelled(block.content or ""))
            texts = [part for part in parts if isinstance(part, TextPart)]
            yield Message(role="tool", content=content([*texts]), tool_call_id=block.tool_use_id)
            rest += [part for part in parts if isinstance(part, ImagePart)]
            results += 1
        else:
            rest += _parts([block])
    if rest or not results:
        yield Message(role="user", content=content(rest))


def _assistant_message(said: Assistant) -> Message:
    texts, thoughts, calls = list[str](), list[str](), list[Call]()
    for block in spelled(said.content):
        if isinstance(block, Text):
            texts.append(block.text)
        elif isinstance(block, Thinking):
            thoughts.append(block.thinking)
        elif isinstance(block, ToolUse):
            calls.append(Call(id=block.id, function=CalledFunction(block.name, as_text(block.input))))
    # one reply may have been told in several blocks of a kind, with nothing between their texts
    return Message(role="assistant", content="".join(texts), reasoning="".join(thoughts), tool_calls=calls)


def found_tools(messages: Iterable[Said]) -> set[str]:
    """Names of the tools that searches for tools found."""
    users = (said.content for said in messages if isinstance(said, User))
    results = (block.content for content in users for block in spelled(content) if isinstance(block, ToolResult))
    return {b.tool_name for content in results for b in spelled(content or "") if isinstance(b, ToolReference)}


def _parts(blocks: Iterable[Text | Image | ToolReference]) -> list[Part]:
    return [_part(block) for block in blocks]


def _part(block: Text | Image | ToolReference) -> Part:
    if isinstance(block, Image):
        return ImagePart(ImageUrl(block.source.address))
    return TextPart(block.text if isinstance(block, Text) else block.tool_name)
