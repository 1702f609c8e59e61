"""Warm-start rows: what is trained in them, and how an episode looks as tokens."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from examples.lookup.family import LINES, TOOLS, demonstrate, make_task
from examples.lookup.model import TOKENIZER
from examples.lookup.rows import Row, RowMaker, make_rows, write_rows
from examples.lookup.words import CURRENT_DATE, CURRENT_FOLDER, NO_OUTPUT, SUBMIT, WORDINGS

tokenizer = AutoTokenizer.from_pretrained(TOKENIZER)
seeds = st.integers(0, 2**32)
harnesses = st.sampled_from(sorted(WORDINGS))


def trained_texts(row: Row) -> list[str]:
    """The runs of trained tokens, as text."""
    runs = itertools.groupby(zip(row.input_ids, row.loss_mask, strict=True), key=lambda pair: pair[1])
    return [tokenizer.decode([token for token, _ in run]) for trained, run in runs if trained]


def draw(seed: int, kind: Callable[[RowMaker], Row], harness: str = "react") -> Row:
    row = kind(RowMaker(tokenizer, random.Random(seed), harness))
    assert len(row.input_ids) == len(row.loss_mask)
    assert row.loss_mask[0] == 0
    return row


@given(seeds, harnesses)
@settings(max_examples=60, deadline=None)
def test_a_demonstration_trains_what_the_assistant_says_and_nothing_else(seed: int, harness: str) -> None:
    row = draw(seed, RowMaker.demonstration, harness)
    turns = tokenizer.decode(row.input_ids).split("<|im_start|>")
    assert trained_texts(row) == [t[len("assistant\n") : -1] for t in turns if t.startswith("assistant\n")]


@given(seeds)
@settings(max_examples=30, deadline=None)
def test_a_look_up_drill_trains_the_numbers_of_repeated_lines(seed: int) -> None:
    row = draw(seed, RowMaker.look_ups)
    lines = tokenizer.decode(row.input_ids).removeprefix("<|im_start|>tool\n").splitlines()
    table, asked = lines[:LINES], lines[LINES:]
    assert set(asked) <= set(table)
    assert trained_texts(row) == [" " + line.split()[2] for line in asked]


@given(seeds)
@settings(max_examples=30, deadline=None)
def test_a_repetition_drill_trains_only_what_was_seen_before(seed: int) -> None:
    ids, mask = draw(seed, RowMaker.repetition)
    first = mask.index(1)
    assert all(mask[first:])
    assert ids[first:] == ids[1 : len(ids) - first + 1]


@given(seeds)
@settings(max_examples=30, deadline=None)
def test_an_episode_that_reads_is_short_and_survives_its_tokens(seed: int) -> None:
    rng = random.Random(seed)
    messages = demonstrate(make_task(rng, "heldout"), rng).messages
    text = tokenizer.apply_chat_template(messages, tools=TOOLS, tokenize=False)
    ids = tokenizer(text)["input_ids"]
    assert tokenizer.decode(ids) == text
    assert len(ids) <= 110
    if len(messages) >= 6:
        assert len(ids) >= 75


@pytest.mark.parametrize("text", ['{"name": "bash", "arguments": {"command": "', '"}}', " blue", " 42", ".txt", "</tool_call>"])
def test_the_pieces_of_a_call_are_one_token_each(text: str) -> None:
    assert len(tokenizer(text)["input_ids"]) == 1


@pytest.mark.parametrize("text", [SUBMIT, NO_OUTPUT, CURRENT_DATE, CURRENT_FOLDER])
def test_what_harnesses_say_often_is_one_token(text: str) -> None:
    assert len(tokenizer(text)["input_ids"]) == 1


@given(st.text())
@settings(max_examples=200, deadline=None)
def test_any_text_can_be_told_in_tokens(text: str) -> None:
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_rows_are_the_same_for_a_seed_and_half_of_them_demonstrations(tmp_path: Path) -> None:
    rows = make_rows(tokenizer, seed=3, count=20)
    assert rows == make_rows(tokenizer, seed=3, count=20)
    assert rows != make_rows(tokenizer, seed=4, count=20)
    assert ["Find" in tokenizer.decode(row.input_ids) for row in rows] == [True, False] * 10
    write_rows(tmp_path / "rows.parquet", rows)
    columns = pq.read_table(tmp_path / "rows.parquet").to_pydict()
    assert columns == {"input_ids": [r.input_ids for r in rows], "loss_mask": [r.loss_mask for r in rows]}
