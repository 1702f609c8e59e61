"""Rows of words that many families say alike are no sign of contamination; those of a task are, also beside them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.synth.gates.copies import Contamination
from services.synth.gates.likeness import shared_row, usual_rows
from services.synth.ports import Text
from tests.unit.synth.gatehouse import Shelf, good, judged

TOOL = "The office is reached with the program ./office, and `./office --help` says how it is used."
TASKS = {
    "move": "Move the meeting on Monday to an hour at which all of its people are free.",
    "count": "Count the votes for each of the dishes in the channel, and post the sum.",
    "name": "Rename the files of the folder after the days on which they were written.",
}
OWN = "Find the telephone number that Ada has left in the chat, and send it to Ben."
WORDS = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=40).map(" ".join)


def held(*families: str, tool: str = TOOL) -> list[Text]:
    """An evaluation set of these families."""
    return [Text(name=name, text=f"{TASKS[name]} {tool}", digest=name, family=name) for name in families]


@pytest.mark.parametrize(("text", "outcome"), [(OWN, "passed"), (TASKS["count"], "failed")])
async def test_how_a_tool_is_to_be_used_is_no_contamination_and_what_is_asked_for_beside_it_is(
    text: str, outcome: str, tmp_path: Path
) -> None:
    folder = good(tmp_path / "task", **{"instruction.md": f"{text} {TOOL}\n"})
    verdict = await judged(Contamination(), folder, pool=Shelf(evaluation=held("move", "count", "name")))
    assert verdict.outcome == outcome, verdict


async def test_what_two_families_alone_have_in_common_is_contamination(tmp_path: Path) -> None:
    folder = good(tmp_path / "task", **{"instruction.md": f"{OWN} {TOOL}\n"})
    assert (await judged(Contamination(), folder, pool=Shelf(evaluation=held("move")))).evidence["how"] == "long-row"


@given(WORDS, WORDS)
def test_a_row_that_is_found_is_in_both_texts_and_leaving_words_out_finds_no_more(one: str, other: str) -> None:
    row, usual = shared_row(one, other, 6), usual_rows([("x", one), ("y", other), ("z", one)])
    assert all(f" {row} " in f" {text} " for text in (one, other)) if row else True
    assert not shared_row(one, other, 6, usual)  # all that both have, three have
