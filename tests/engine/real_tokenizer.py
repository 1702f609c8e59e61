"""A real tokenizer and chat template for the conversing engine: a byte-level BPE with merges, trained on this repository's own
texts when it is first needed (a second), and Qwen's layout of turns, tools, thinking and images.

As with real models, what was sampled is not always what the tokenizer makes of the same text: see `sampled`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

Json = dict[str, Any]

REPO = Path(__file__).parents[2]
TEMPLATE = Path(__file__).parent / "real_template.jinja"
VOCABULARY = 6000
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>")
MARKUP = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
IMAGE_TOKENS = 16
"""Placeholders that one image takes in a prompt."""

# Qwen's pieces: merges never cross them.
_PIECES = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)  # fmt: skip


@cache
def tokenizer() -> Tokenizer:
    """The tokenizer."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(_PIECES), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=list(SPECIAL), initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )  # fmt: skip
    made.train_from_iterator(_corpus(), trainer)
    made.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in MARKUP])
    return made


def token(text: str) -> int:
    """Id of one of `SPECIAL` or `MARKUP`."""
    found = tokenizer().token_to_id(text)
    assert found is not None, text
    return int(found)


def encode(text: str) -> list[int]:
    """Token ids of a text, markers included."""
    return list(tokenizer().encode(text, add_special_tokens=False).ids)


def decode(ids: list[int], *, markers: bool = True) -> str:
    """The text of token ids; `markers` says whether `SPECIAL` ones are shown."""
    return str(tokenizer().decode(ids, skip_special_tokens=not markers))


def sampled(text: str, seed: int) -> list[int]:
    """Token ids that say `text`, some of them not as the tokenizer would cut it: the pieces between random cuts, one by one.

    The same seed gives the same ids. Markers stay whole.
    """
    draw = random.Random(seed)
    ids: list[int] = []
    for piece in encode(text):
        word = decode([piece])
        if len(word) < 3 or word in (*MARKUP, *SPECIAL) or "�" in word or draw.random() > 0.2:
            ids.append(piece)
        else:
            cut = draw.randrange(1, len(word))
            ids += encode(word[:cut]) + encode(word[cut:])
    return ids


def render(messages: list[Json], tools: list[Json] | None, generation: bool = True) -> list[int]:
    """Prompt ids of a conversation in OpenAI's chat form; `generation` adds the head of the assistant's turn."""
    text = _template().render(messages=[_parsed(m) for m in messages], tools=tools or None, add_generation_prompt=generation)
    pad = token("<|image_pad|>")
    return [i for piece in encode(text) for i in ([pad] * IMAGE_TOKENS if piece == pad else [piece])]


def _parsed(message: Json) -> Json:
    """Templates get the arguments of tool calls as objects, as far as they are JSON."""
    calls = [{**c, "function": {**c["function"], "arguments": _loads(c["function"]["arguments"])}} for c in _calls(message)]
    return {**message, "tool_calls": calls} if calls else message


def _calls(message: Json) -> list[Json]:
    return message.get("tool_calls") or []


def _loads(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


@cache
def _template() -> Any:
    environment = ImmutableSandboxedEnvironment(trim_blocks=False, lstrip_blocks=False)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8"))


def _corpus() -> Iterator[str]:
    for pattern in ("*.md", "docs/*.md", "services/**/*.py", "shared/**/*.py", "tests/unit/**/*.py"):
        for file in sorted(REPO.glob(pattern)):
            yield file.read_text(encoding="utf-8")
