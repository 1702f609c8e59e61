"""Conversations as training rows, with real tokenizers and chat templates."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.trainer.sft.text import HuggingFaceTokenizer, Message, Unaligned, rows_of
from shared.errors import ConfigError

pytestmark = [pytest.mark.real, pytest.mark.slow]

QWEN3 = r"""{%- set last = namespace(user=-1) %}
{%- for m in messages %}{% if m.role == 'user' %}{% set last.user = loop.index0 %}{% endif %}{% endfor %}
{%- for m in messages %}<|im_start|>{{ m.role }}
{% if m.role == 'assistant' and m.reasoning_content and loop.index0 > last.user %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content }}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
"""As Qwen3's: thinking before the last user message is left out."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.engine.tiny_model import make_tokenizer

    made = tmp_path_factory.mktemp("tokenizer")
    make_tokenizer().save_pretrained(made)
    return made


@pytest.fixture(scope="module")
def tiny(folder: Path) -> HuggingFaceTokenizer:
    return HuggingFaceTokenizer(folder)


def with_template(folder: Path, to: Path, template: str) -> HuggingFaceTokenizer:
    import shutil

    shutil.copytree(folder, to)
    (to / "chat_template.jinja").write_text(template)
    return HuggingFaceTokenizer(to)


def said(tokenizer: HuggingFaceTokenizer, row: tuple[list[int], list[int]]) -> list[str]:
    """What a row trains, place by place."""
    ids, mask = row
    parts: list[list[int]] = []
    for n, (i, m) in enumerate(zip(ids, mask, strict=True)):
        if m:
            if not n or not mask[n - 1]:
                parts.append([])
            parts[-1].append(i)
    return [tokenizer._tokenizer.decode(part) for part in parts]


def call(command: str) -> Message:
    function = {"name": "bash", "arguments": f'{{"command": "{command}"}}'}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "type": "function", "function": function}]}


def test_what_the_assistant_says_is_trained_to_its_end_and_nothing_else(tiny: HuggingFaceTokenizer) -> None:
    messages = [
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "list it"}, call("ls"),
        {"role": "tool", "content": "<|im_start|>assistant", "tool_call_id": "c"}, {"role": "assistant", "content": "one, two"},
    ]  # fmt: skip
    (row,) = rows_of(messages, [{"type": "function", "function": {"name": "bash"}}], tiny)
    assert said(tiny, row) == [
        '<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call><|im_end|>', "one, two<|im_end|>",
    ]  # fmt: skip


def test_the_example_s_own_masks_are_the_same(tmp_path: Path) -> None:
    """The demo masks its demonstrations token by token; rendered text comes to the same, id by id."""
    from transformers import AutoTokenizer

    from examples.lookup.demo import HERE
    from examples.lookup.family import TOOLS, demonstrate, make_task
    from examples.lookup.rows import RowMaker

    tokenizer, theirs = HuggingFaceTokenizer(HERE / "tokenizer"), AutoTokenizer.from_pretrained(HERE / "tokenizer")
    for seed in range(5):
        ids, mask = RowMaker(theirs, random.Random(seed)).demonstration()
        rng = random.Random(seed)
        (row,) = rows_of(demonstrate(make_task(rng, "train"), rng).messages, TOOLS, tokenizer)
        length = len(row[0])  # a newline after the last turn is the template's, and nothing is learned from it
        assert row == (list(ids)[:length], list(mask)[:length])
        assert not any(mask[length:])


def test_thinking_that_is_left_out_later_begins_a_new_row(folder: Path, tmp_path: Path) -> None:
    tokenizer = with_template(folder, tmp_path / "t", QWEN3)
    messages = [
        {"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "reasoning_content": "hm"},
        {"role": "user", "content": "c"}, {"role": "assistant", "content": "d", "reasoning_content": "so"},
    ]  # fmt: skip
    first, second = rows_of(messages, None, tokenizer)
    assert said(tokenizer, first) == ["<think>\nhm\n</think>\n\nb<|im_end|>"]
    assert said(tokenizer, second) == ["<think>\nso\n</think>\n\nd<|im_end|>"]
    assert "hm" not in tokenizer._tokenizer.decode(second[0])


texts = st.text(st.sampled_from('ab <|>\n{"é世'), min_size=1, max_size=8)


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant", "tool"]), texts), min_size=1, max_size=6))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
def test_every_reply_is_trained_once_whatever_is_said(tiny: HuggingFaceTokenizer, talk: list[tuple[str, str]]) -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "x"}, *({"role": r, "content": t} for r, t in talk)]
    replies = [text + "<|im_end|>" for role, text in talk if role == "assistant"]
    if not replies:
        with pytest.raises(Unaligned, match="says nothing"):
            rows_of(messages, None, tiny)
        return
    rows = rows_of(messages, None, tiny)
    assert [part for row in rows for part in said(tiny, row)] == replies


ASKED = "{% if add_generation_prompt %}assistant: {% endif %}"


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}" + ASKED, "ends no reply"),
        ("{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}" + ASKED, "otherwise than after"),
        ("{{ raise_exception('roles must alternate') }}", "refuses it: TemplateError: roles must alternate"),
    ],
)
def test_what_cannot_be_told_is_refused_with_the_reason(folder: Path, tmp_path: Path, template: str, said: str) -> None:
    tokenizer = with_template(folder, tmp_path / "t", template)
    with pytest.raises(Unaligned, match=said):
        rows_of([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], None, tokenizer)


class Merging:
    """A tokenizer that makes one token of a generation prompt's end and a reply's beginning."""

    ends = ("$",)

    def render(self, messages: Any, tools: Any, *, asked: bool) -> str:
        return "".join(("A" if m["role"] == "assistant" else "U") + m["content"] + "$" for m in messages) + "A" * asked

    def encode(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        places, at = [], 0
        while at < len(text):
            width = 2 if text[at : at + 2] in self.pairs else 1
            places.append((at, at + width))
            at += width
        return [hash(text[a:b]) for a, b in places], places

    def __init__(self, *pairs: str) -> None:
        self.pairs = pairs


def test_a_conversation_that_nobody_began_is_refused() -> None:
    with pytest.raises(Unaligned, match="begins with the assistant"):
        rows_of([{"role": "assistant", "content": "b"}], None, Merging())


def test_tokens_across_the_beginning_of_a_reply_are_refused() -> None:
    talk = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "b"}]
    (row,) = rows_of(talk, None, Merging())
    assert sum(row[1]) == 2
    with pytest.raises(Unaligned, match="a token holds both"):
        rows_of(talk, None, Merging("Ab"))


def test_a_folder_without_tokenizer_or_template_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be loaded"):
        HuggingFaceTokenizer(tmp_path)
    with pytest.raises(ConfigError, match="need a chat template"):
        with_template(folder, tmp_path / "t", "")
