"""What images are built from."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from services.orchestrator.backends.docker.context import entries, ignoring, pack


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    top = tmp_path / "environment"
    (top / "data" / "deep").mkdir(parents=True)
    for name in ("Dockerfile", "a.txt", "b.log", "data/c.txt", "data/deep/d.log"):
        (top / name).write_text(name)
    (top / "link").symlink_to("/etc/passwd")
    return top


def names(folder: Path, *lines: str) -> list[str]:
    (folder / ".dockerignore").write_text("\n".join(lines))
    return [name for name in entries(folder) if name not in ("Dockerfile", ".dockerignore", "link")]


def digest(folder: Path) -> str:
    return pack(folder)


def test_without_rules_everything_is_sent(folder: Path) -> None:
    assert names(folder) == ["a.txt", "b.log", "data", "data/c.txt", "data/deep", "data/deep/d.log"]


@pytest.mark.parametrize(
    ("lines", "sent"),
    [
        (["*.log"], ["a.txt", "data", "data/c.txt", "data/deep", "data/deep/d.log"]),
        (["**/*.log"], ["a.txt", "data", "data/c.txt", "data/deep"]),
        (["data"], ["a.txt", "b.log"]),
        (["/data/"], ["a.txt", "b.log"]),
        (["data/*", "!data/c.txt"], ["a.txt", "b.log", "data", "data/c.txt"]),
        (["# a.txt", "", "  b.log  "], ["a.txt", "data", "data/c.txt", "data/deep", "data/deep/d.log"]),
        (["?.txt", "[ab].log"], ["data", "data/c.txt", "data/deep", "data/deep/d.log"]),
        (["*"], []),
        (["!a.txt", "*"], []),
        (["**"], []),
        (["data/**/d.log"], ["a.txt", "b.log", "data", "data/c.txt", "data/deep"]),
    ],
)
def test_what_dockerignore_names_is_left_out(folder: Path, lines: list[str], sent: list[str]) -> None:
    assert names(folder, *lines) == sent


def test_the_dockerfile_is_sent_whatever_is_ignored(folder: Path) -> None:
    (folder / ".dockerignore").write_text("*")
    assert list(entries(folder)) == [".dockerignore", "Dockerfile"]


def test_a_dot_of_a_pattern_is_a_dot() -> None:
    assert not ignoring(["a.txt"])("aXtxt")


def test_links_are_packed_as_links(folder: Path) -> None:
    file = io.BytesIO()
    pack(folder, file)
    file.seek(0)
    with tarfile.open(fileobj=file) as tar:
        assert tar.getmember("link").issym()
        assert tar.extractfile("a.txt").read() == b"a.txt"  # type: ignore[union-attr]


def test_a_digest_depends_on_names_modes_and_contents_alone(folder: Path) -> None:
    before = digest(folder)
    os.utime(folder / "a.txt", (1, 1))
    assert digest(folder) == before
    (folder / "a.txt").chmod(0o755)
    changed_mode = digest(folder)
    (folder / "a.txt").write_text("other")
    changed_text = digest(folder)
    (folder / "a.txt").rename(folder / "z.txt")
    assert len({before, changed_mode, changed_text, digest(folder)}) == 4


def test_what_is_ignored_does_not_change_the_digest(folder: Path) -> None:
    (folder / ".dockerignore").write_text("*.log")
    before = digest(folder)
    (folder / "b.log").write_text("more")
    assert digest(folder) == before


def test_packing_gives_the_digest_of_what_it_writes(folder: Path) -> None:
    file = io.BytesIO()
    assert pack(folder, file) == digest(folder)
    assert file.tell() > 0


def test_two_names_of_one_file_are_packed_whole(folder: Path) -> None:
    os.link(folder / "a.txt", folder / "a2.txt")
    file = io.BytesIO()
    pack(folder, file)
    file.seek(0)
    with tarfile.open(fileobj=file) as tar:
        assert {tar.extractfile(n).read() for n in ("a.txt", "a2.txt")} == {b"a.txt"}  # type: ignore[union-attr]
