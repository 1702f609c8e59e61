"""Folders of tests are no packages, so that pytest knows a test module by its name alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parent.parent


def test_no_two_test_modules_have_the_same_name() -> None:
    names = Counter(file.name for file in TESTS.rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []
