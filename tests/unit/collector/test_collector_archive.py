"""The archive on disk: what was written is read, whatever became of the files."""

from __future__ import annotations

import gzip
import random
import shutil
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.collector.archive import Retention, Segments, archive_files
from services.collector.archive_reader import Damage, read
from shared.errors import ArchiveError
from shared.events import Message, RunStaged, WeightsLoaded, encode
from tests.unit.collector.rollouts import RUN

few = settings(max_examples=10, deadline=None)


def loaded(version: int, **more: object) -> WeightsLoaded:
    return WeightsLoaded(run_id=RUN, at=1.0, version=version, **more)  # type: ignore[arg-type]


def lines(*messages: Message) -> list[bytes]:
    return [encode(m) for m in messages]


def read_all(folder: Path) -> tuple[list[Message], Damage]:
    damage = Damage()
    return list(read(folder, damage)), damage


@few
@given(st.lists(st.lists(st.text(max_size=30), min_size=1, max_size=4), min_size=1, max_size=6))
def test_what_several_writers_wrote_is_read_once(batches: list[list[str]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        writers = [Segments(Path(name)) for _ in range(2)]
        messages = [[RunStaged(run_id=RUN, at=float(i), stage=s, done=i, total=n) for n, s in enumerate(b)]
                    for i, b in enumerate(batches)]  # fmt: skip
        for i, batch in enumerate(messages):
            writers[i % 2].append(lines(*batch))
        writers[0].append(lines(*messages[0]))
        found, damage = read_all(Path(name))
    expected = {m.event_id: m for batch in messages for m in batch}
    assert {m.event_id for m in found} == set(expected)
    assert damage.repeated >= len({m.event_id for m in messages[0]})
    assert (damage.torn, damage.unreadable, damage.foreign) == (0, 0, 0)


def test_it_is_plain_gzip_with_a_message_a_line(tmp_path: Path) -> None:
    segments = Segments(tmp_path)
    segments.append(lines(loaded(1), loaded(2)))
    segments.append(lines(loaded(3)))
    (file,) = archive_files(tmp_path)
    assert gzip.decompress(file.read_bytes()).splitlines() == lines(loaded(1), loaded(2), loaded(3))


@few
@given(st.integers(0, 10**6))
def test_a_member_that_was_cut_off_is_counted_and_costs_no_other(at: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        segments = Segments(Path(name))
        segments.append(lines(loaded(1), loaded(2)))
        (file,) = archive_files(Path(name))
        whole = file.stat().st_size
        segments.append(lines(loaded(3)))
        cut = whole + 1 + at % (file.stat().st_size - whole - 1)
        file.write_bytes(file.read_bytes()[:cut])
        Segments(Path(name)).append(lines(loaded(4)))
        found, damage = read_all(Path(name))
    assert {m.version for m in found if isinstance(m, WeightsLoaded)} == {1, 2, 4}
    assert damage == Damage(torn=1)


@few
@given(st.integers(0, 10**6), st.integers(1, 255))
def test_a_flipped_byte_never_passes_as_a_message(at: int, bits: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        segments = Segments(Path(name))
        segments.append(lines(loaded(1)))
        segments.append(lines(loaded(2)))
        (file,) = archive_files(Path(name))
        content = bytearray(file.read_bytes())
        content[at % len(content)] ^= bits
        file.write_bytes(content)
        found, damage = read_all(Path(name))
    assert all(m in (loaded(1), loaded(2)) for m in found)
    # A byte of the header that says nothing about the content (its time, the system) may differ.
    assert len(found) == 2 or damage.torn or damage.unreadable


def test_messages_of_one_id_with_different_content_are_both_there_and_reported(tmp_path: Path) -> None:
    segments = Segments(tmp_path)
    segments.append(lines(loaded(1), loaded(1, push_s=2.0), loaded(2)))
    later = WeightsLoaded(run_id=RUN, at=9.0, version=2)
    segments.append([*lines(later), b'{"type":"no.such"}', b"garbage"])
    found, damage = read_all(tmp_path)
    assert found == [loaded(1), loaded(1, push_s=2.0), loaded(2)]
    assert damage == Damage(foreign=2, repeated=1, conflicts=[loaded(1).event_id])


def test_files_stay_small_and_the_oldest_go_first(tmp_path: Path) -> None:
    most, noise = 128 * 1024, random.Random(0)
    segments = Segments(tmp_path, Retention(max_bytes=most))
    for _ in range(20):
        segments.append([noise.randbytes(16 * 1024)])
    files = archive_files(tmp_path)
    assert len(files) == 5
    assert segments.expire(time.time()) == []  # its writer, or another, may be about to add to any of them
    gone = segments.expire(time.time() + 61)
    assert gone == files[: len(gone)]
    assert archive_files(tmp_path) == files[len(gone) :]
    assert most / 2 < sum(f.stat().st_size for f in archive_files(tmp_path)) <= most
    segments.append(lines(loaded(1)))


def test_what_is_too_old_goes(tmp_path: Path) -> None:
    old, young = Segments(tmp_path, Retention(max_age_s=3600)), Segments(tmp_path)
    old.append(lines(loaded(1)))
    young.append(lines(loaded(2)))
    assert old.expire(time.time() + 3000) == []
    assert len(old.expire(time.time() + 3700)) == 2


def test_a_file_that_cannot_be_written_is_left_for_the_next(tmp_path: Path) -> None:
    folder = tmp_path / "archive"
    segments = Segments(folder)
    segments.append(lines(loaded(1)))
    kept = tmp_path / "kept"
    shutil.move(folder, kept)
    with pytest.raises(FileNotFoundError):
        segments.append(lines(loaded(2)))
    shutil.move(kept, folder)
    segments.append(lines(loaded(2)))
    assert len(archive_files(folder)) == 2
    assert read_all(folder) == ([loaded(1), loaded(2)], Damage())


def test_a_folder_without_an_archive_says_so(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=r"collector\.archive"):
        read_all(tmp_path)
