"""The scripted engine's tokenizer and chat template: one token a byte, and four markers. Rendering what was sampled gives
the very tokens that were sampled, so a conversation extends its own prefix. An image is a row of placeholders."""

from __future__ import annotations

import json
from typing import Any

START, END, PAD = 256, 257, 258
"""`<|im_start|>`, `<|im_end|>` (the stop token) and `<|endoftext|>`."""

IMAGE, IMAGE_TOKENS = 259, 16
"""`<|image_pad|>`, and how many of them stand for an image, whatever its size."""

VOCAB = 260
Json = dict[str, Any]


def encode(text: str) -> list[int]:
    """Token ids of a text: its UTF-8 bytes."""
    return list(text.encode())


def decode(ids: list[int]) -> str:
    """The text of token ids; markers have none."""
    return bytes(i for i in ids if i < 256).decode(errors="replace")


def render(messages: list[Json], tools: list[Json] | None = None, *, open_turn: bool = True) -> list[int]:
    """Prompt ids of a conversation; the generation prompt follows if a turn is to be opened."""
    ids = _turn("system", encode("tools: " + json.dumps(tools))) if tools else []
    for message in messages:
        calls = encode("".join(map(markup, message.get("tool_calls") or ())))
        ids += _turn(message["role"], _content(message.get("content")) + calls)
    return [*ids, START, *encode("assistant\n")] if open_turn else ids


def read(ids: list[int]) -> list[Json]:
    """The messages of a rendered conversation: roles and texts, calls as the markup that they are."""
    turns = bytes(i if i < 256 else 0 for i in ids).split(b"\0")  # no text has a zero byte
    named = [turn.decode(errors="replace").partition("\n") for turn in turns[1::2]]
    return [{"role": role, "content": text} for role, _, text in named[:-1]]


def markup(call: Json) -> str:
    """A tool call as the model writes it; `arguments` is a JSON text."""
    function = call["function"]
    return f'<tool_call>\n{{"name": "{function["name"]}", "arguments": {function["arguments"]}}}\n</tool_call>'


def _turn(role: str, content: list[int]) -> list[int]:
    return [START, *encode(f"{role}\n"), *content, END, *encode("\n")]


def _content(content: str | list[Json] | None) -> list[int]:
    if not isinstance(content, list):
        return encode(content or "")
    return [i for part in content for i in ([IMAGE] * IMAGE_TOKENS if "image_url" in part else encode(part.get("text", "")))]


def logprob(ids: list[int], at: int) -> float:
    """The log-prob (natural log) of the token at a position, given those before it: made up, but always the same."""
    before = ids[at - 1] if at else 0
    return -((before * 31 + ids[at] * 17 + at * 7) % 997 + 1) / 1000
