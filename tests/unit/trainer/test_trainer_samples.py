"""Rows from the bus are checked before anything is learned from them."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace

from services.trainer.batch.samples import read_vote, unpack
from shared.errors import FidelityError
from shared.events import Row, Span
from shared.packing import pack_floats, pack_ids, pack_mask
from tests.unit.trainer.twins import row, trajectory


def span(start: int, end: int) -> Span:
    return Span(seq=1, start=start, end=end, after=0)


def test_a_row_is_split_into_prompt_and_response() -> None:
    sample = unpack(row(prompt=[1, 2], reply=[3, 4, 5]))
    assert (sample.ids, sample.prompt_len, sample.mask, sample.trained) == ([1, 2, 3, 4, 5], 2, [1, 1, 1], 3)
    assert sample.logprobs == [-0.5, -0.5, -0.5]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (replace(row(), ids=pack_ids([1, 2, 3, 4])), "4 ids, 7 mask values"),
        (replace(row(), prompt_len=0), "has a prompt of 0"),
        (replace(row(), prompt_len=7), "has a prompt of 7"),
        (replace(row(), response_mask=pack_mask([0, 1, 0, 1, 1, 1, 1])), "trains tokens of its prompt"),
        (replace(row(), response_mask=pack_mask([0, 0, 0, 2, 1, 1, 1])), "values other than 0 and 1"),
        (replace(row(), spans=[]), "spans are not the places"),
        (replace(row(), spans=[span(3, 6)]), "spans are not the places"),
        (replace(row(), spans=[span(3, 8)]), "spans are not the places"),
        (replace(row(), spans=[span(2, 6)]), "spans are not the places"),
        (replace(row(), spans=[span(3, 5), span(5, 5), span(5, 7)]), "spans are not the places"),
        (replace(row(), spans=[span(5, 7), span(3, 5)]), "spans are not the places"),
        (replace(row(), spans=[span(3, 6), span(5, 7)]), "spans are not the places"),
        (replace(row(), logprobs=pack_floats([0, 0, 0, math.nan, -1, -1, -1])), "not a finite number"),
        (replace(row(), logprobs=pack_floats([0, 0, 0, 0.5, -1, -1, -1])), "not a finite number <= 0"),
    ],
)
def test_a_malformed_row_is_refused(bad: Row, message: str) -> None:
    with pytest.raises(FidelityError, match=message):
        unpack(bad)


def test_a_reward_that_is_no_number_is_refused() -> None:
    with pytest.raises(FidelityError, match="reward nan"):
        read_vote(trajectory("r1", math.nan))


def test_a_row_of_several_calls_has_a_span_for_each() -> None:
    assert unpack(replace(row(), spans=[span(3, 5), span(5, 7)])).trained == 4


def test_a_trajectory_counts_the_trained_tokens_of_all_its_rows() -> None:
    made = [row(seq=1, after=2), row(seq=4, after=1), row(seq=5)]
    vote = read_vote(trajectory("r1", 1.0, version=3, made=made))
    assert (vote.trained, [s.version for s in vote.samples]) == (12, [3, 3, 3])


@pytest.mark.parametrize("made", [[row(after=0), row(after=1)], [row(seq=1, after=0), row(seq=2, after=0)], [row(after=1)]])
def test_a_call_that_is_trained_twice_or_out_of_its_turn_is_refused(made: list[Row]) -> None:
    with pytest.raises(FidelityError, match="each has one span"):
        read_vote(trajectory("r1", 1.0, made=made))
