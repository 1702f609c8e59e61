"""Files that are put aside by their size: what is kept is the newest, whole, whoever writes it."""

from __future__ import annotations

import logging
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.rotation import Bound, RotatingHandler, rotate


def lines_in(folder: Path) -> list[str]:
    """Of all files, from the oldest."""
    files = sorted(folder.iterdir(), key=lambda f: -int(f.suffix[1:]) if f.suffix[1:].isdigit() else 0)
    return [line for file in files for line in file.read_text().splitlines()]


@settings(deadline=None, max_examples=50)  # each writes files
@given(
    sizes=st.lists(st.tuples(st.integers(1, 40), st.integers(0, 2)), max_size=40),
    limit=st.integers(20, 80),
    older=st.integers(0, 3),
)
def test_the_newest_lines_are_kept_whole_and_no_more_than_the_bound_however_many_write(
    sizes: list[tuple[int, int]], limit: int, older: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        handlers = [RotatingHandler(folder / "log", Bound(limit, older)) for _ in range(3)]
        written = [f"{n}".ljust(size, "x") for n, (size, _) in enumerate(sizes)]
        for line, (_, writer) in zip(written, sizes, strict=True):
            handlers[writer].handle(logging.makeLogRecord({"msg": line}))
        for handler in handlers:
            handler.close()
        kept = lines_in(folder)
        assert kept == written[len(written) - len(kept) :]
        sizes_kept = [file.stat().st_size for file in folder.iterdir()]
        assert len(sizes_kept) <= older + 1
        assert all(size < limit + 41 for size in sizes_kept)
        if sum(len(line) + 1 for line in written) < limit:
            assert kept == written


def test_a_file_below_its_bound_stays_and_one_that_is_not_there_is_none(tmp_path: Path) -> None:
    file = tmp_path / "log"
    rotate(file, Bound(5, 1))
    file.write_text("four")
    rotate(file, Bound(5, 1))
    assert [f.name for f in tmp_path.iterdir()] == ["log"]


def test_what_another_one_put_aside_is_not_put_aside_again(tmp_path: Path) -> None:
    file, bound, count = tmp_path / "log", Bound(1, 100), 40
    with ThreadPoolExecutor(1) as other:
        meanwhile = [other.submit(rotate, file, bound) for _ in range(2 * count)]
        for n in range(count):
            (tmp_path / "new").write_text(str(n))
            (tmp_path / "new").replace(file)
            rotate(file, bound)
        assert all(tried.result() is None for tried in meanwhile)
    assert lines_in(tmp_path) == [str(n) for n in range(count)]


def test_logging_outlives_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    handler = RotatingHandler(folder / "log", Bound(1000, 1))
    shutil.rmtree(folder)
    handler.handle(logging.makeLogRecord({"msg": "gone"}))
    folder.mkdir()
    handler.handle(logging.makeLogRecord({"msg": "back"}))
    handler.close()
    assert lines_in(folder) == ["back"]
    assert "FileNotFoundError" in capsys.readouterr().err
