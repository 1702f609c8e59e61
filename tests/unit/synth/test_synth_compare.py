"""The verifier that compares tables: 1 for what was wanted, less for less and for more, 0 for what cannot be believed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.synth.domains import compare
from services.synth.domains.parts.kept import Kept

START = {"posts": [{"id": "p1", "text": "One", "hidden": False}, {"id": "p2", "text": "Two", "hidden": False}], "answers": []}
WANTED = [
    {"table": "posts", "id": "p1", "set": {"hidden": True}},
    {"table": "answers", "id": "answers-1", "set": {"answer": "Heron"}},
]
CHANGES = st.lists(
    st.fixed_dictionaries(
        {
            "table": st.sampled_from(["posts", "answers"]),
            "id": st.sampled_from(["p1", "p2", "answers-1"]),
            "set": st.dictionaries(st.sampled_from(["hidden", "text"]), st.sampled_from([True, False, "One", "x"]), min_size=1),
        }
    ),
    max_size=6,
)


def expected(fold: bool = False) -> dict[str, Any]:
    return {"start": START, "changes": WANTED, "fold": fold}


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    (tmp_path / "data.json").write_text(json.dumps({"settings": {}, "tables": START}))
    return Kept(tmp_path)


def test_exactly_what_is_wanted_is_worth_1(kept: Kept, tmp_path: Path) -> None:
    assert compare.reward(tmp_path, expected()) == 0
    kept.note({"request": "GET /", "status": 200})
    assert compare.reward(tmp_path, expected()) == 0
    kept.change("posts", "p1", {"hidden": True})
    assert compare.reward(tmp_path, expected()) == 0.5
    kept.add("answers", {"answer": " Heron "})
    assert compare.reward(tmp_path, expected()) == 1


def test_what_is_not_wanted_costs_until_it_is_undone(kept: Kept, tmp_path: Path) -> None:
    kept.change("posts", "p1", {"hidden": True})
    kept.change("posts", "p2", {"hidden": True})
    assert compare.reward(tmp_path, expected()) == pytest.approx(1 / 3)
    kept.change("posts", "p2", {"hidden": False})
    assert compare.reward(tmp_path, expected()) == 0.5


def test_capitals_count_unless_the_task_says_otherwise(kept: Kept, tmp_path: Path) -> None:
    kept.change("posts", "p1", {"hidden": True})
    kept.add("answers", {"answer": "heron"})
    assert compare.reward(tmp_path, expected()) == pytest.approx(1 / 3)
    assert compare.reward(tmp_path, expected(fold=True)) == 1


@pytest.mark.parametrize(
    "state", ["", "[]", "7", "{", '{"tables": []}', '{"tables": {"posts": [7]}}', '{"tables": {"posts": 7}}', '{"tables": {}}']
)
def test_a_state_that_the_program_cannot_have_left_is_worth_0(state: str, kept: Kept, tmp_path: Path) -> None:
    for change in WANTED[:1]:
        kept.change("posts", "p1", change["set"])  # type: ignore[arg-type]
    (tmp_path / "state.json").write_text(state)
    assert compare.reward(tmp_path, expected()) == 0


@pytest.mark.parametrize(
    "line", ["7", "{", '{"set": 1}', '{"set": {}, "table": [], "id": "p1"}', '{"set": 1, "table": "posts", "id": "p1"}']
)
def test_a_journal_of_other_lines_is_worth_0(line: str, kept: Kept, tmp_path: Path) -> None:
    kept.change("posts", "p1", {"hidden": True})
    with (tmp_path / "journal.jsonl").open("a") as journal:
        journal.write(line + "\n")
    assert compare.reward(tmp_path, expected()) == (0.5 if line == "7" else 0)


def test_a_state_without_its_journal_is_worth_0(kept: Kept, tmp_path: Path) -> None:
    kept.change("posts", "p1", {"hidden": True})
    kept.add("answers", {"answer": "Heron"})
    journal = tmp_path / "journal.jsonl"
    journal.rename(tmp_path / "elsewhere")
    assert compare.reward(tmp_path, expected()) == 0
    journal.symlink_to(tmp_path / "elsewhere")
    assert compare.reward(tmp_path, expected()) == 0


def test_a_program_that_was_ended_while_it_wrote_has_lost_nothing(kept: Kept, tmp_path: Path) -> None:
    kept.change("posts", "p1", {"hidden": True})
    state = (tmp_path / "state.json").read_text()
    kept.add("answers", {"answer": "Heron"})
    (tmp_path / "state.json").write_text(state)
    with (tmp_path / "journal.jsonl").open("a") as journal:
        journal.write('{"table": "posts", "id": "p2", "se')
    assert compare.reward(tmp_path, expected()) == 1


@given(CHANGES)
@settings(max_examples=40)
def test_changes_that_end_where_they_began_are_no_facts_and_others_are(changes: list[Any]) -> None:
    start = compare.by_id(START)
    end = compare.applied(start, changes)
    found = compare.facts(start, end, fold=False)
    assert (found == set()) == (end == start)
    assert compare.applied(start, []) == start
    assert compare.facts(end, end, fold=False) == set()
