"""Tasks on desktops, as far as no screen is needed: what is drawn, what programs make of input, what solvers read."""

from __future__ import annotations

from decimal import Decimal
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.synth.domains.computer import forms, options, sorting, sums, texts
from services.synth.domains.parts.desk.arithmetic import KEYS, Calculator
from services.synth.domains.parts.fields import complaint
from services.synth.domains.solvers.note_to_form import booking

LEVELS = (1, 2, 3)
SEEDS = range(20)


def display(keys: str) -> str:
    calculator = Calculator()
    for key in keys:
        calculator.press(key)
    return calculator.display


@given(st.lists(st.decimals(0, 999, places=2), min_size=1, max_size=5))
def test_the_calculator_adds(amounts: list[Decimal]) -> None:
    assert Decimal(display("+".join(map(str, amounts)) + "=")) == sum(amounts)


@pytest.mark.parametrize(
    ("keys", "shown"),
    [
        ("", "0"), ("007", "7"), ("1.2.3", "1.23"), ("2+3*4=", "20"), ("9-12=", "-3"), ("7/2=", "3.5"), ("5+3=2", "2"),
        ("5+3C", "0"), ("5+-3=", "2"), ("1/0=", "error"), ("1/0=4", "4"), ("100*10=", "1000"), (".5+.5=", "1"),
    ],
)  # fmt: skip
def test_the_calculator_does_what_pocket_calculators_do(keys: str, shown: str) -> None:
    assert display(keys) == shown


@given(st.text(alphabet=KEYS, max_size=30))
def test_no_key_breaks_the_calculator(keys: str) -> None:
    assert display(keys)


@pytest.mark.parametrize("level", LEVELS)
def test_what_a_form_is_to_get_stands_in_its_note_and_the_form_takes_it(level: int) -> None:
    for seed in SEEDS:
        drawn = forms.draw(Random(seed), level)
        note, form = drawn.settings["windows"]
        lines = [line for page in note["pages"] for line in page]
        (change,) = drawn.changes
        assert booking(lines, drawn.known["name"]) == change["set"]
        assert [error for field in form["fields"] if (error := complaint(field, change["set"][field["name"]]))] == []


def test_a_form_says_what_is_wrong() -> None:
    field = {"name": "n", "label": "Nights", "pattern": r"\d+", "hint": "a number"}
    assert complaint(field, "") == "Nights: please fill in."
    assert complaint(field, "two") == "Nights: a number."
    assert complaint(field, "2") == ""


@pytest.mark.parametrize("level", LEVELS)
def test_settings_are_changed_to_others_that_they_may_have(level: int) -> None:
    for seed in SEEDS:
        drawn = options.draw(Random(seed), level)
        rows = {row["id"]: row for row in drawn.tables["settings"]}
        for change in drawn.changes:
            row, value = rows[change["id"]], change["set"]["value"]
            assert value != row["value"]
            if row["kind"] == "number":
                assert value in range(row["low"], row["high"] + 1, row["step"])
            else:
                assert value in row.get("options", (True, False))


@pytest.mark.parametrize("level", LEVELS)
def test_lists_keep_their_other_lines(level: int) -> None:
    for seed in SEEDS:
        drawn = texts.draw(Random(seed), level)
        before = {row["id"]: row["text"].split("\n") for row in drawn.tables["documents"]}
        after = {**before, **{change["id"]: change["set"]["text"].split("\n") for change in drawn.changes}}
        touched = {line for _, old, new in drawn.known["steps"] for line in (old, new)}
        kept = [[line for line in lists["shopping"] if line not in touched] for lists in (before, after)]
        assert kept[0] == kept[1]
        assert len(drawn.changes) == (2 if level == 3 else 1)
        assert len({line for lines in after.values() for line in lines}) == sum(map(len, after.values()))


@pytest.mark.parametrize("level", LEVELS)
def test_some_files_are_moved_and_most_stay(level: int) -> None:
    for seed in SEEDS:
        drawn = sorting.draw(Random(seed), level)
        assert 2 <= len(drawn.changes) <= 9 < len(drawn.tables["files"])
        assert len({row["name"] for row in drawn.tables["files"]}) == len(drawn.tables["files"])


@pytest.mark.parametrize("level", LEVELS)
def test_a_sum_is_of_amounts_of_the_note(level: int) -> None:
    for seed in SEEDS:
        drawn = sums.draw(Random(seed), level)
        lines = [line for page in drawn.settings["windows"][0]["pages"] for line in page if line.startswith(drawn.known["who"])]
        pieces = [int(line.split(", ")[1].split()[0]) if level > 2 else 1 for line in lines]
        total = sum(count * Decimal(line.rpartition(", ")[2]) for count, line in zip(pieces, lines, strict=True))
        assert drawn.changes[0]["set"]["total"] == str(total)
