"""Fixtures of this folder."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from services.orchestrator.sandbox import Kind
from tests.unit.orchestrator.house import MakeTask, house, make_task, proxy
from tests.unit.orchestrator.runners import KINDS, OTHER_UID, Bench, isolation_of

__all__ = ["house", "make_task", "proxy"]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can pass through."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


@pytest.fixture
def folder(open_folder: Path) -> Iterator[Path]:
    """A folder of this process, which for its time is not root."""
    root = os.geteuid() == 0
    if root:
        os.chown(open_folder, OTHER_UID, OTHER_UID)
        os.seteuid(OTHER_UID)
    yield open_folder
    if root:
        os.seteuid(0)


@pytest.fixture
def bench_of(make_task: MakeTask, tmp_path: Path, open_folder: Path) -> Callable[[Kind], Bench]:
    """Makes a bench for a kind of sandbox."""
    return lambda kind: Bench(isolation_of(kind), make_task(), tmp_path / "runs", open_folder)


@pytest.fixture(params=KINDS)
def bench(request: pytest.FixtureRequest, bench_of: Callable[[Kind], Bench]) -> Bench:
    """A bench for every kind of sandbox."""
    return bench_of(request.param)


@pytest.fixture
def bubblewrap_bench(bench_of: Callable[[Kind], Bench]) -> Bench:
    """A bench of bubblewrap sandboxes."""
    return bench_of("bubblewrap")


@pytest.fixture
def uid_bench(bench_of: Callable[[Kind], Bench]) -> Bench:
    """A bench of sandboxes of another user."""
    return bench_of("uid")


@pytest.fixture
def plain_bench(bench_of: Callable[[Kind], Bench]) -> Bench:
    """A bench of plain processes: what no namespace cleans up after."""
    return bench_of("process")
