"""Conversations as training rows: rendered with the model's own chat template, exactly what the assistant says masked in.

A reply is trained in the context that the model would have been asked in: the conversation before it, rendered with the
generation prompt. As long as that begins with all that was rendered before, replies share one row; where the template writes
earlier turns otherwise by then (thinking that it leaves out, say), a new row begins. Every reply is trained once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec

from shared.errors import ConfigError

Message = dict[str, Any]
IdsAndMask = tuple[list[int], list[int]]


class Unaligned(Exception):
    """A conversation of which it cannot be told which tokens are the assistant's. The text says why."""


class Tokenizer(Protocol):
    """What is asked of the model's tokenizer."""

    def render(self, messages: Sequence[Message], tools: Sequence[Message] | None, *, asked: bool) -> str:
        """The chat template's text, with the generation prompt if `asked`.

        Raises:
            Unaligned: the template refuses the conversation.
        """
        ...

    def encode(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Token ids, and of each the characters that it stands for."""
        ...

    @property
    def ends(self) -> Sequence[str]:
        """Texts of the tokens that end a reply."""
        ...


@dataclass(frozen=True, slots=True)
class _Turn:
    """A reply: the text that asks for it, and the reply up to the token that ends it."""

    prompt: str
    reply: str

    @property
    def text(self) -> str:
        return self.prompt + self.reply


def rows_of(messages: Sequence[Message], tools: Sequence[Message] | None, tokenizer: Tokenizer) -> list[IdsAndMask]:
    """(ids, mask) of each row of a conversation; a mask is 1 on the tokens that the assistant says, the end of turns included.

    Raises:
        Unaligned: the assistant says nothing, or it cannot be told which tokens are its own.
    """
    made = [_parsed(m) for m in messages]
    turns = [_turn(made, i, tools, tokenizer) for i, m in enumerate(made) if m["role"] == "assistant"]
    if not turns:
        raise Unaligned("the assistant says nothing in it")
    rows: list[list[_Turn]] = []
    for turn in turns:
        if rows and turn.prompt.startswith(rows[-1][-1].text):
            rows[-1].append(turn)
        else:
            rows.append([turn])
    return [_row(row, tokenizer) for row in rows]


def _turn(messages: Sequence[Message], i: int, tools: Sequence[Message] | None, tokenizer: Tokenizer) -> _Turn:
    if not i:
        raise Unaligned("it begins with the assistant, whom nobody has asked anything")
    prompt = tokenizer.render(messages[:i], tools, asked=True)
    whole = tokenizer.render(messages[: i + 1], tools, asked=False)
    if not whole.startswith(prompt):
        raise Unaligned("the chat template writes a reply otherwise than after its own generation prompt")
    reply = whole[len(prompt) :]
    end = max((at + len(text) for text in tokenizer.ends if (at := reply.rfind(text)) >= 0), default=0)
    if not end or reply[end:].strip():
        known = ", ".join(tokenizer.ends) or "none"
        raise Unaligned(f"the chat template ends no reply with a token that ends sampling ({known}), so none would be learned")
    return _Turn(prompt, reply[:end])


def _row(turns: Sequence[_Turn], tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """One row of turns that go on from each other."""
    ids, places = tokenizer.encode(turns[-1].text)
    mask = [0] * len(ids)
    for turn in turns:
        start, end = len(turn.prompt), len(turn.text)
        inside = [n for n, (a, b) in enumerate(places) if a < end and b > start]
        if not inside or any(places[n][0] < start or places[n][1] > end for n in inside):
            raise Unaligned("a token holds both words of the assistant and others' at an end of its turn")
        if tokenizer.encode(turn.prompt)[0] != ids[: inside[0]]:
            raise Unaligned("a prompt alone becomes other tokens than it is in the whole conversation")
        for n in inside:
            mask[n] = 1
    return ids, mask


def _parsed(message: Message) -> Message:
    """As vLLM hands messages to a template: arguments of tool calls are objects, not their JSON text."""
    calls = message.get("tool_calls")
    if not calls:
        return message
    return {**message, "tool_calls": [{**c, "function": _function(c.get("function") or {})} for c in calls]}


def _function(function: Message) -> Message:
    arguments = function.get("arguments")
    if not isinstance(arguments, str):
        return function
    try:
        return {**function, "arguments": msgspec.json.decode(arguments or "{}")}
    except msgspec.DecodeError:
        return function


class HuggingFaceTokenizer:
    """The tokenizer of a model folder.

    Args:
        model: the folder.

    Raises:
        ConfigError: it cannot be loaded, has no chat template, or cannot say where its tokens lie.
    """

    def __init__(self, model: Path) -> None:
        from transformers import AutoTokenizer

        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(model, local_files_only=True)
        except Exception as e:  # whatever transformers raises on a folder that is none of its
            raise ConfigError(f"the tokenizer of {model} cannot be loaded: {e}") from None
        if not self._tokenizer.chat_template or not self._tokenizer.is_fast:
            raise ConfigError(f"{model}: conversations need a chat template and a fast tokenizer (tokenizer.json)")
        self.ends: Sequence[str] = [self._tokenizer.convert_ids_to_tokens(i) for i in _end_ids(model, self._tokenizer)]

    def render(self, messages: Sequence[Message], tools: Sequence[Message] | None, *, asked: bool) -> str:
        """See `Tokenizer`."""
        try:
            text: str = self._tokenizer.apply_chat_template(
                list(messages), tools=list(tools) if tools else None, add_generation_prompt=asked, tokenize=False
            )
        except Exception as e:  # a template may raise anything
            raise Unaligned(f"the chat template refuses it: {type(e).__name__}: {' '.join(str(e).split())[:120]}") from None
        return text

    def encode(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """See `Tokenizer`."""
        made = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        return made["input_ids"], made["offset_mapping"]


class _Ends(msgspec.Struct):
    eos_token_id: int | list[int] | None = None


def _end_ids(model: Path, tokenizer: Any) -> list[int]:
    """Ids that end sampling: the tokenizer's, and those that the model's files name."""
    found = [tokenizer.eos_token_id]
    for file in (model / "generation_config.json", model / "config.json"):
        if file.is_file():
            named = msgspec.json.decode(file.read_bytes(), type=_Ends).eos_token_id
            found += named if isinstance(named, list) else [named]
    return list(dict.fromkeys(i for i in found if i is not None))
