"""The measure of weight transfers: small files, all of it."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = [pytest.mark.real, pytest.mark.slow]


def test_every_size_is_measured_and_nothing_is_left(tmp_path: Path) -> None:
    from tests.bench.transfer import measure

    figures = measure([80_000, 8_000], 1, tmp_path)
    assert list(figures.push_s) == list(figures.reference_s) == [8_000, 80_000]
    assert all(figures.ratio[size] == figures.push_s[size] / figures.reference_s[size] > 0 for size in figures.push_s)
    assert list(tmp_path.iterdir()) == []
