"""Every task of the example: its solution is worth 1; doing nothing, or the wrong thing, is worth 0."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from examples.lookup.write_tasks import COUNTS, TASKS
from shared.task import list_tasks
from tests.e2e.workbench import Workbench


def solve(bench: Workbench) -> Path:
    """Runs the solution; returns the one file that it added."""
    before = set(bench.app.iterdir())
    bench.run("solution/solve.sh")
    (target,) = set(bench.app.iterdir()) - before
    return target


def for_every_task(tmp_path: Path, check: Callable[[Workbench], object]) -> list[object]:
    """What `check` returns for each task."""
    tasks = [task for split in COUNTS for task in list_tasks(TASKS / split)]
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda task: check(Workbench(task, tmp_path / task.parent.name / task.name)), tasks))


def test_doing_nothing_is_worth_0_and_the_solution_1(tmp_path: Path) -> None:
    def check(bench: Workbench) -> object:
        before = bench.score()
        solve(bench)
        return bench.task.name, before, bench.score()

    results = for_every_task(tmp_path, check)
    assert len(results) == sum(COUNTS.values())
    assert [r for r in results if not (isinstance(r, tuple) and r[1:] == ("0\n", "1\n"))] == []


def test_wrong_answers_are_worth_0(tmp_path: Path) -> None:
    def check(bench: Workbench) -> object:
        target = solve(bench)
        answer = target.read_text().strip()
        key, number = answer.split()
        table = next(p.read_text() for p in bench.app.iterdir() if f"- {answer}\n" in p.read_text())
        scores = {}
        for wrong in (f"{key} {int(number) % 90 + 10}\n", table):
            target.write_text(wrong)
            scores[wrong] = bench.score()
        target.unlink()
        (bench.app / "elsewhere.txt").write_text(answer + "\n")
        scores["elsewhere"] = bench.score()
        return bench.task.name, {wrong: score for wrong, score in scores.items() if score != "0\n"}

    assert [r for r in for_every_task(tmp_path, check) if isinstance(r, tuple) and r[1]] == []
