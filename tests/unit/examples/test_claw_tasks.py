"""The example tasks of `examples/claw` are what their families make."""

from __future__ import annotations

from pathlib import Path

from examples.claw.write_tasks import CHOSEN, TASKS, write_all
from shared.task.lint import lint


def content(folder: Path) -> dict[str, tuple[int, bytes]]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(folder)): (path.stat().st_mode & 0o111, path.read_bytes()) for path in files}


def test_the_example_tasks_are_made_anew_byte_for_byte(tmp_path: Path) -> None:
    write_all(tmp_path)
    made, kept = content(tmp_path), content(TASKS)
    assert sorted(made) == sorted(kept)
    assert [path for path in made if made[path] != kept[path]] == []


def test_there_are_twenty_of_all_families_and_nothing_speaks_against_them() -> None:
    folders = sorted(TASKS.iterdir())
    assert len(folders) == 20
    assert len({family for family, _, _ in CHOSEN}) == 14
    assert {folder.name: found for folder in folders if (found := lint(folder, "local", "none")[1])} == {}
