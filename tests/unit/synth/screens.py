"""Helpers of the tests of pages and desktops: families' tasks, and their sites without processes and sockets."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from services.synth.domains import compare
from services.synth.domains.parts.kept import Kept
from services.synth.domains.parts.webapp.__main__ import Site
from services.synth.domains.solvers.visitor import Visitor
from services.synth.ports import Family


def made(family: Family, seed: int, folder: Path) -> Path:
    """The task of a seed, in a folder of that one."""
    task = folder / f"{family.name}-{seed}"
    task.mkdir(parents=True)
    family.make(seed, task)
    return task


def digest(folder: Path) -> str:
    """Of names and contents of all files, and whether they can be run."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return sha256(
        b"".join(f"{path.relative_to(folder)} {path.stat().st_mode & 0o100}\0".encode() + path.read_bytes() for path in files)
    ).hexdigest()


def read(task: Path, name: str) -> Any:
    """A JSON file of a task."""
    return json.loads((task / name).read_text(encoding="utf-8"))


def visitor_of(folder: Path) -> Visitor:
    """Somebody who visits the site of a folder."""
    site, cookies = Site(Kept(folder)), [""]

    def fetch(to: str, form: bytes | None) -> str:
        answer, begun = site.answer("GET" if form is None else "POST", to, (form or b"").decode(), cookies[0])
        cookies[0] = begun or cookies[0]
        assert answer.status == 200, to
        return fetch(answer.to, None) if answer.to else answer.body

    return Visitor(fetch)


def solve_pages(task: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs a task's solver over its site."""

    @contextmanager
    def visiting() -> Iterator[Visitor]:
        yield visitor_of(task / "environment")

    name = task.name.rpartition("-")[0].replace("-", "_")
    solver = importlib.import_module(f"services.synth.domains.solvers.{name}")
    monkeypatch.setattr(solver, "visiting", visiting)
    monkeypatch.setattr(solver, "known", lambda: read(task, "solution/known.json"))
    solver.main()


def reward(task: Path) -> float:
    """What the verifier says of the task's environment."""
    return compare.reward(task / "environment", read(task, "tests/expected.json"))
