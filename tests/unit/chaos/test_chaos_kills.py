"""What is killed when."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.chaos.__main__ import Lines
from tests.chaos.kills import FIRST, LAST, WIPE, draw

TARGETS = ("collector", "proxy", "store")


@given(st.integers(), st.integers(0, 40), st.booleans())
def test_every_target_has_its_turn_and_the_store_is_wiped_once(seed: int, kills: int, wipe: bool) -> None:
    drawn = draw(seed, TARGETS, kills, wipe=wipe)
    assert drawn == sorted(draw(seed, TARGETS, kills, wipe=wipe))
    assert all(FIRST <= kill.after <= LAST for kill in drawn)
    times = Counter(kill.target for kill in drawn)
    assert times.pop(WIPE, 0) == wipe
    assert times.total() == kills
    assert max(times.values(), default=0) - min((times[t] for t in TARGETS), default=0) <= 1


def test_lines_are_counted_as_they_come(tmp_path: Path) -> None:
    file = tmp_path / "log"
    lines = Lines(file)
    assert lines.count() == 0
    file.write_text("one\ntw")
    assert lines.count() == 1
    with file.open("a") as more:
        more.write("o\nthree\n")
    assert lines.count() == 3
