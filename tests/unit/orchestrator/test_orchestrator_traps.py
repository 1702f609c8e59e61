"""What an agent leaves behind so that the verifier cannot start: it would fail its attempt, which would then be tried again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from services.orchestrator.runner.files import empty, make_enterable
from tests.unit.orchestrator.runners import Bench


@pytest.mark.parametrize("trap", ["chmod 000 .", 'chmod 000 "$HOME" "$LOGS_DIR/agent"', "mkdir -p x/y && chmod 555 x x/y"])
async def test_an_agent_that_closes_its_folders_is_verified_all_the_same(bench: Bench, trap: str) -> None:
    status = await bench.run(f"echo hello > out.txt; {trap}")
    assert (status["phase"], status["error"]) == ("done", None)
    assert status["phases"]["verify"]["collected"] == {"reward.txt": "1\n"}


@pytest.mark.parametrize("left", ["touch", "mkfifo", "ln -s nowhere"])
async def test_an_agent_that_replaces_its_working_folder_is_verified_all_the_same(plain_bench: Bench, left: str) -> None:
    status = await plain_bench.run(f'cd /; rm -r "$APP_DIR"; {left} "$APP_DIR"')
    assert (status["phase"], status["phases"]["verify"]["collected"]) == ("done", {"reward.txt": "0\n"})


def test_a_folder_with_closed_ones_in_it_is_emptied(folder: Path) -> None:
    """As the module cache of Go leaves them."""
    inner = folder / "home" / "go" / "pkg"
    inner.mkdir(parents=True)
    (inner / "file").touch()
    (inner / "link").symlink_to("/")
    for closed, mode in ((inner, 0o555), (inner.parent, 0), (folder / "home", 0)):
        closed.chmod(mode)
    empty(str(folder / "home"))
    assert list((folder / "home").iterdir()) == []
    assert (folder / "home").stat().st_mode & 0o700 == 0o700


def test_whatever_lies_in_a_folders_place_goes_away(folder: Path) -> None:
    os.mkfifo(folder / "fifo")
    (folder / "file").touch()
    (folder / "link").symlink_to("/usr")
    for name in ("fifo", "file", "link", "nothing"):
        empty(str(folder / name))
        assert (folder / name).is_dir()
        assert not (folder / name).is_symlink()


def test_a_working_folder_may_be_a_link_to_one(folder: Path) -> None:
    (folder / "there").mkdir()
    (folder / "app").symlink_to("there")
    make_enterable(str(folder / "app"))
    assert (folder / "app").is_symlink()
