"""Folders for temporary files: they go with their owner, or with the next one that comes."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.dev.scratch import new_scratch, scratch, sweep
from shared.errors import ConfigError

OWNER = """
import subprocess, sys
from services.dev.scratch import scratch
with scratch() as folder:
    (folder / "tmpx").mkdir()
    child = subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL, env={"TMPDIR": str(folder), "PATH": "/bin:/usr/bin"})
    print(folder, child.pid, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for temporary files, short enough for sockets below it."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        monkeypatch.setattr(tempfile, "tempdir", name)
        yield Path(name)


def test_a_folder_goes_with_its_owner_and_all_that_is_in_it(place: Path) -> None:
    with scratch() as folder:
        assert (folder.parent, folder.stat().st_mode & 0o777) == (place, 0o700)
        (folder / "x").mkdir()
        (folder / "x" / "y").touch()
        sweep()
        assert (folder / "x" / "y").exists()
    assert list(place.iterdir()) == []


def test_it_is_made_where_it_was_planned(place: Path) -> None:
    planned = new_scratch()
    assert not planned.exists()
    with scratch(planned) as folder:
        assert folder == planned


def test_one_that_is_there_already_is_not_taken(place: Path) -> None:
    with scratch() as folder, pytest.raises(ConfigError, match="set TMPDIR"), scratch(folder):
        raise AssertionError("taken")


def test_what_is_not_ours_by_its_name_or_has_no_lock_is_left_alone(place: Path) -> None:
    others = [place / "openforge-20261130-1-abcd", place / "openforge.abcdef", place / "openforge.abcdefg"]
    for folder in others:
        folder.mkdir()
    (others[0] / "in-use").touch()
    (others[2] / "in-use").touch()
    sweep()
    assert sorted(place.iterdir()) == sorted(others)


def test_a_socket_that_somebody_has_there_keeps_a_folder(place: Path) -> None:
    left = place / "openforge.abcdef"
    left.mkdir()
    (left / "in-use").touch()
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(left / "s"))
        sweep()
        assert (left / "s").exists()
    sweep()
    assert not left.exists()


@pytest.mark.parametrize("length", [22, 23])
def test_where_sockets_would_have_no_room_it_lies_in_tmp(monkeypatch: pytest.MonkeyPatch, length: int) -> None:
    wanted = "/" + "x" * (length - 1)
    monkeypatch.setattr(tempfile, "tempdir", wanted)
    assert str(new_scratch().parent) == (wanted if length == 22 else "/tmp")


@pytest.mark.real
def test_what_a_killed_owner_left_goes_once_its_processes_are_gone(place: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | {"TMPDIR": str(place)}
    )
    assert owner.stdout is not None
    assert owner.stdin is not None
    folder, child = owner.stdout.readline().decode().split()
    sweep()
    assert Path(folder).exists(), "its owner lives"
    owner.kill()
    owner.wait()
    sweep()
    assert Path(folder).exists(), "its child lives"
    os.kill(int(child), signal.SIGKILL)
    _gone(int(child))
    sweep()
    assert not Path(folder).exists()


def _gone(pid: int) -> None:
    """Waits for the end of a process that is somebody else's child."""
    fd = os.pidfd_open(pid)
    try:
        select.select([fd], [], [], 30)
    finally:
        os.close(fd)
