"""Weight files: whole or not there, with a checksum, and never more than are kept."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError

from services.trainer.weights.pushed import WeightFiles, checksum
from shared.errors import ConfigError


def write(files: WeightFiles, version: int, words: str = "") -> None:
    def export(file: Path) -> None:
        file.write_text(words or f"weights {version}")

    files.write(version, export)


def test_a_version_is_a_file_and_a_manifest_with_its_checksum(tmp_path: Path) -> None:
    files = WeightFiles(tmp_path / "push", 2)
    assert files.newest() is None
    write(files, 3)
    pushed = files.newest()
    assert pushed is not None
    assert (pushed.version, files.path(pushed).read_text(), pushed.size) == (3, "weights 3", 9)
    assert pushed.sha256 == checksum(files.path(pushed)) != ""
    write(files, 3, "other weights")  # a trainer that went on from a checkpoint
    pushed = files.newest()
    assert pushed is not None
    assert (files.path(pushed).read_text(), pushed.sha256) == ("other weights", checksum(files.path(pushed)))


def test_the_newest_versions_are_kept(tmp_path: Path) -> None:
    files = WeightFiles(tmp_path, 2)
    for version in (0, 1, 2, 9, 10):
        write(files, version)
    assert sorted(f.name for f in tmp_path.iterdir()) == ["v10.json", "v10.safetensors", "v9.json", "v9.safetensors"]


def test_what_was_never_finished_counts_for_nothing_and_is_removed(tmp_path: Path) -> None:
    files = WeightFiles(tmp_path, 2)
    write(files, 1)

    def die(file: Path) -> None:
        file.write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        files.write(2, die)
    (tmp_path / "v2.safetensors.part").write_text("ha")
    (tmp_path / "v3.json").write_text("no manifest")
    newest = files.newest()
    assert newest is not None
    assert newest.version == 1
    write(files, 4)
    assert sorted(f.name for f in tmp_path.glob("*.safetensors*")) == ["v1.safetensors", "v4.safetensors"]


def test_a_file_that_lost_its_end_is_passed_over(tmp_path: Path) -> None:
    files = WeightFiles(tmp_path, 2)
    write(files, 1)
    write(files, 2)
    (tmp_path / "v2.safetensors").write_text("w")
    newest = files.newest()
    assert newest is not None
    assert newest.version == 1


def test_a_full_disk_is_named_and_leaves_the_last_version(tmp_path: Path) -> None:
    files = WeightFiles(tmp_path, 2)
    write(files, 1)

    def fill(file: Path) -> None:
        file.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(ConfigError, match=r"is full .* version 2 could not be written; one takes 0 MB; free some space"):
        files.write(2, fill)
    assert sorted(f.name for f in tmp_path.iterdir()) == ["v1.json", "v1.safetensors"]


def test_what_versions_have_in_common_stays_as_they_go(tmp_path: Path) -> None:
    files = WeightFiles(tmp_path, 1)
    for words in ("of an earlier trainer", "base"):
        base = files.write_base(lambda file, words=words: file.write_text(words))  # type: ignore[misc]
    for version in (1, 2, 3):
        write(files, version)
    assert (files.path(base).read_text(), base.sha256) == ("base", checksum(files.path(base)))
    assert sorted(f.name for f in tmp_path.iterdir()) == [
        "base.safetensors", "v2.json", "v2.safetensors", "v3.json", "v3.safetensors",
    ]  # fmt: skip
    newest = files.newest()
    assert newest is not None
    assert newest.version == 3


def test_a_full_disk_is_told_from_what_safetensors_says_of_it(tmp_path: Path) -> None:
    def export(file: Path) -> None:
        file.with_name(file.name + ".part").write_text("half")
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    with pytest.raises(ConfigError, match="is full"):
        WeightFiles(tmp_path, 2).write(1, export)
    assert list(tmp_path.iterdir()) == []


def test_other_errors_stay_what_they_are(tmp_path: Path) -> None:
    def fail(file: Path) -> None:
        raise OSError(errno.EACCES, "Permission denied")

    with pytest.raises(PermissionError):
        WeightFiles(tmp_path, 2).write(1, fail)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(versions=st.lists(st.integers(0, 200), min_size=1, max_size=8), keep=st.integers(1, 3))
def test_the_last_one_written_is_there_whatever_came_before(tmp_path: Path, versions: list[int], keep: int) -> None:
    for old in tmp_path.iterdir():
        old.unlink()
    files = WeightFiles(tmp_path, keep)
    for version in versions:
        write(files, version)
        assert (tmp_path / f"v{version}.safetensors").read_text() == f"weights {version}"
        assert len(list(tmp_path.glob("*.json"))) <= max(keep, 2)
