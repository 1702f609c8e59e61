"""Copies in other words, against tasks that only are of one kind."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.synth.gates.copies import Contamination, Copies, same_things, usual_of
from services.synth.gates.named import named, without
from services.synth.gates.texts import text_of
from services.synth.models.prompts import Prompts
from services.synth.ports import Text
from tests.unit.synth.gatehouse import Shelf, good, judged
from tests.unit.synth.reworded import REWORDED

EXAMPLES = Path(__file__).parents[3] / "examples"
FOUND = 17
"""Of the twenty. The others name next to nothing, such as one word."""
WORDS = st.lists(st.sampled_from(["a", "b", "c", "`d`", "Ada", "e/f", "9"]), max_size=30).map(" ".join)


@cache
def examples() -> dict[str, Text]:
    folders = [
        file.parent for top in ("claw", "browser", "computer") for file in (EXAMPLES / top / "tasks").glob("*/task.toml")
    ]
    return {f"{folder.parents[1].name}/{folder.name}": text_of(folder) for folder in sorted(folders)}


def of_another(text: str) -> Text:
    return Text(name="own", text=text, digest="own", family="own")


def test_tasks_in_other_words_are_found_as_what_they_are_copies_of() -> None:
    pool = list(examples().values())
    owns = {name: of_another(text) for name, text in REWORDED.items()}
    found = {name: same_things(own, pool, usual_of(own, pool)) for name, own in owns.items()}
    assert {close.name for close in found.values() if close} <= {text.name for text in pool}
    assert [name for name, close in found.items() if close and close.name != examples()[name].name] == []
    assert sum(close is not None for close in found.values()) >= FOUND


def test_tasks_of_the_examples_are_no_copies_of_those_of_other_families() -> None:
    pool = list(examples().values())
    others = {own.name: [text for text in pool if text.family != own.family] for own in pool}
    close = {own.name: same_things(own, others[own.name], usual_of(own, others[own.name])) for own in pool}
    assert [name for name, found in close.items() if found] == []


async def test_what_is_told_in_other_words_is_neither_let_into_the_pool_nor_beside_the_evaluation(tmp_path: Path) -> None:
    name = "browser/forum-moderate-1"
    files = {"instruction.md": REWORDED[name], "task.toml": '[metadata]\nfamily = "own"\n'}
    folder = good(tmp_path / "task", **files)
    copy = await judged(Copies(Prompts()), folder, pool=Shelf([examples()[name]]))
    assert (copy.outcome, copy.reason) == ("failed", "paraphrase")
    leak = await judged(Contamination(), folder, pool=Shelf(evaluation=[examples()[name]]))
    assert (leak.outcome, leak.evidence["how"]) == ("failed", "paraphrase")


@pytest.mark.parametrize("other", ["Nothing is named here.", "Send Eva the file `b.txt`."])
def test_what_speaks_of_other_things_has_little_in_common(other: str) -> None:
    assert named("Send Ada the file `a.txt`.", other)[0] < 0.5


@given(WORDS, WORDS)
def test_likeness_is_a_share_in_both_directions_and_whole_for_the_same(one: str, other: str) -> None:
    share, common, _ = named(one, other)
    assert 0 <= share <= 1
    assert (share, common) == named(other, one)[:2]
    assert named(one, one)[0] in (0, 1)


@given(WORDS)
def test_leaving_words_out_leaves_the_others_as_they_were(text: str) -> None:
    assert without(text, frozenset()) == text
    left = without(text, frozenset({"a a a a a", "b c d ada e f"})).split()
    assert set(left) <= set(text.split())
