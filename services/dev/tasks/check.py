"""`openforge tasks check`: what is wrong with tasks, without running them and by two agents whose reward is known."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from services.dev.signals import until_signal
from services.dev.tasks.importing import needs_of
from services.dev.tasks.report import Checked, notes, summary, table
from services.dev.tasks.trials import trials
from services.synth.model import Ended, Trial
from services.synth.ports import Trials
from shared.config import OrchestratorConfig
from shared.errors import SandboxError
from shared.task import list_tasks
from shared.task.lint import lint


@dataclass(frozen=True, slots=True)
class Wish:
    """What to check, and how.

    Attributes:
        folder: of a task or of a set.
        settings: of the orchestrator.
        runs: of each agent; more than one finds rewards that differ.
        lint_only: nothing is run.
        as_json: JSON instead of a table.
        keep: folder for what the runs leave; None removes it.
    """

    folder: Path
    settings: OrchestratorConfig
    runs: int = 1
    lint_only: bool = False
    as_json: bool = False
    keep: Path | None = None


async def check(wish: Wish) -> int:
    """Checks a task, or all tasks of a set, and prints what was found; returns 1 if anything is wrong.

    Raises:
        TaskError: there is no task.
        ConfigError: tasks are not checked in the configured backend.
        SandboxError: no sandbox can be had here.
    """
    started = time.monotonic()
    checked = [_linted(folder, wish) for folder in folders_of(wish.folder)]
    code = await until_signal(_run(checked, wish), say_interrupted)
    return code or _report(checked, wish, time.monotonic() - started)


def folders_of(folder: Path) -> list[Path]:
    """The task that a folder is, or those in it.

    Raises:
        TaskError: there is none.
    """
    return [folder] if (folder / "task.toml").is_file() else list_tasks(folder)


def say_interrupted() -> None:
    """What is said after Ctrl-C."""
    sys.stderr.write("interrupted; nothing stays behind\n")


def _linted(folder: Path, wish: Wish) -> Checked:
    task, findings = lint(folder, wish.settings.backend, wish.settings.network)
    checked = Checked(folder, task.name if task else folder.name, findings)
    checked.solved = task is not None and all((step.solution / "solve.sh").is_file() for step in task.steps)
    if task is None:
        checked.skipped = "it cannot be loaded"
    elif reasons := [f.text for f in findings if f.text.startswith("cannot run here")]:
        checked.skipped = reasons[0]
    elif needs := needs_of(folder):
        checked.skipped = f"it needs {' and '.join(needs)}"
    return checked


async def _run(checked: list[Checked], wish: Wish) -> int:
    wanted = [] if wish.lint_only else list(_wanted(checked, wish.runs))
    if not wanted:
        return 0
    with bar("running null and oracle", len(wanted)) as advance:
        async with trials(wish.settings, wish.keep) as running:
            for ended in asyncio.as_completed([_one(running, number, checked[number], trial) for number, trial in wanted]):
                number, one = await ended
                checked[number].runs.setdefault(one.trial.agent, []).append(one)
                advance()
    for task in checked:
        task.runs = {agent: sorted(task.runs[agent], key=lambda one: one.trial.run) for agent in sorted(task.runs)}
    return 0


@contextmanager
def bar(text: str, total: int) -> Iterator[Callable[[], None]]:
    """Shows how far something is; what it gives is to be called after each part."""
    console = Console(stderr=True)
    columns = ("[progress.description]{task.description}", "{task.completed}/{task.total}")
    with Progress(*map(TextColumn, columns), TimeElapsedColumn(), console=console, transient=True) as progress:
        shown = progress.add_task(text, total=total)
        yield lambda: progress.advance(shown)


async def _one(running: Trials, number: int, task: Checked, trial: Trial) -> tuple[int, Ended]:
    try:
        return number, (await running.run(f"t{number}", task.folder, [trial]))[0]
    except SandboxError as e:
        return number, Ended(trial=trial, error=str(e))


def _wanted(checked: Sequence[Checked], runs: int) -> list[tuple[int, Trial]]:
    found = []
    for number, task in enumerate(checked):
        for agent in () if task.skipped else ("null", "oracle") if task.solved else ("null",):
            found += [(number, Trial(agent=agent, run=run + 1)) for run in range(runs)]
    return found


def _report(checked: list[Checked], wish: Wish, wall_s: float) -> int:
    wrong = any(task.problems for task in checked)
    if wish.as_json:
        content = {"wall_s": round(wall_s, 2), "good": not wrong, "tasks": [task.as_json() for task in checked]}
        sys.stdout.write(json.dumps(content, indent=1) + "\n")
        return int(wrong)
    console = Console()
    console.print(table(checked), highlight=False, markup=False)
    for line in notes(checked):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    console.print(summary(checked, wall_s), highlight=False, markup=False, soft_wrap=True)
    return int(wrong)
