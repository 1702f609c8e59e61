"""The journal: what was acknowledged is there, a torn end is cut, and other damage is said."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.trainer.journal.journal import Journal, JournalError
from shared.errors import ConfigError

bodies = st.lists(st.binary(max_size=40), min_size=1, max_size=8)


def written(folder: Path, records: list[bytes]) -> Path:
    """The file of a journal with records."""
    journal = Journal(folder)
    for record in records:
        journal.append(record)
    journal.close()
    return folder / f"{0:012}.journal"


def read(folder: Path, cursor: int = 0) -> list[bytes]:
    journal = Journal(folder)
    try:
        return list(journal.read(cursor))
    finally:
        journal.close()


@given(bodies)
@settings(max_examples=20, deadline=None)
def test_records_come_back_in_their_order(records: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        written(Path(folder), records)
        assert [read(Path(folder), n) for n in range(len(records) + 1)] == [records[n:] for n in range(len(records) + 1)]


@given(bodies, st.data())
@settings(max_examples=30, deadline=None)
def test_a_torn_end_is_cut_and_everything_before_it_kept(records: list[bytes], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = written(Path(folder), records)
        size = data.draw(st.integers(0, file.stat().st_size))
        os.truncate(file, size)
        kept = read(Path(folder))
        assert kept == records[: len(kept)]
        written(Path(folder), [b"more"])
        assert read(Path(folder)) == [*kept, b"more"]


@given(bodies, st.data())
@settings(max_examples=30, deadline=None)
def test_a_flipped_bit_before_the_last_record_is_an_error(records: list[bytes], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = written(Path(folder), records)
        end = file.stat().st_size
        written(Path(folder), [b"last"])
        content = bytearray(file.read_bytes())
        content[data.draw(st.integers(0, end - 1))] ^= 1 << data.draw(st.integers(0, 7))
        file.write_bytes(content)
        with pytest.raises(JournalError, match="damaged at byte"):
            Journal(Path(folder))
        assert file.read_bytes() == content


def test_zeros_at_the_end_are_a_torn_end(tmp_path: Path) -> None:
    file = written(tmp_path, [b"a"])
    with file.open("ab") as f:
        f.write(bytes(4096))
    assert read(tmp_path) == [b"a"]


async def test_what_lies_before_a_cursor_is_pruned_by_whole_files(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for n in range(6):
        journal.append(b"%d" % n)
        if n in (1, 3):
            await journal.rotate()
    await journal.rotate()
    await journal.rotate()
    assert len(list(tmp_path.glob("*.journal"))) == 4
    journal.prune(4)
    assert list(journal.read(4)) == [b"4", b"5"]
    with pytest.raises(JournalError, match="records 3 to 6 are wanted, and it begins with 4"):
        list(journal.read(3))
    journal.close()
    assert read(tmp_path, 4) == [b"4", b"5"]


async def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for n in range(3):
        journal.append(b"%d" % n)
        await journal.rotate()
    journal.close()
    (tmp_path / f"{1:012}.journal").unlink()
    with pytest.raises(JournalError, match="records 1 to 1 are missing"):
        Journal(tmp_path)


async def test_those_who_wait_together_share_an_fsync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, synced = Journal(tmp_path), list[int]()
    monkeypatch.setattr(os, "fsync", synced.append)
    marks = [journal.append(b"x") for _ in range(50)]
    await asyncio.gather(*(journal.sync(mark) for mark in marks))
    assert len(synced) == 1
    journal.close()


def test_one_process_has_it_at_a_time(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    with pytest.raises(ConfigError, match="another trainer is at work on this run"):
        Journal(tmp_path)
    journal.close()
    Journal(tmp_path).close()


def test_a_full_disk_is_said_and_leaves_no_torn_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, write = Journal(tmp_path), os.write

    def full(file: int, data: bytes) -> int:
        write(file, data[:5])
        raise OSError(28, "No space left on device")

    journal.append(b"a")
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(JournalError, match="cannot be written: No space left on device; free some space"):
            journal.append(b"b")
    journal.append(b"c")
    journal.close()
    assert read(tmp_path) == [b"a", b"c"]


@pytest.mark.slow
def test_a_killed_process_leaves_all_that_it_was_told_is_durable(tmp_path: Path) -> None:
    program = f"""
import asyncio, pathlib
from services.trainer.journal.journal import Journal
async def main():
    journal = Journal(pathlib.Path({str(tmp_path)!r}))
    while True:
        mark = journal.append(b'%d' % journal.cursor)
        await journal.sync(mark)
        print(mark, flush=True)
asyncio.run(main())"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for _ in range(20):
        told = int(process.stdout.readline())
    process.kill()
    rest = [int(line) for line in process.stdout.read().split("\n")[:-1]]
    process.wait()
    kept = read(tmp_path)
    assert kept == [b"%d" % n for n in range(len(kept))]
    assert len(kept) >= max([told, *rest])
