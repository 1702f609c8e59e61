"""`openforge eval CONFIG`: a stack for the length of an evaluation."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec
from rich.console import Console

from services.dev.evaluation.drive import Drive, Wish, plan_groups
from services.dev.evaluation.table import report_table
from services.dev.evaluation.taskset import read_tasks
from services.dev.plan import Plan, make_plan
from services.dev.preflight import check_stack
from services.dev.run import unless_stack_fails
from services.dev.signals import until_signal
from services.dev.stack import Stack
from services.dev.view import View
from services.orchestrator.harnesses import harness
from services.trainer.evaluation.report import EPISODES, FILE, Episode, Report, outcomes, scores, task_scores
from shared.config import Config
from shared.errors import ConfigError
from shared.events import RunStaged

_STAGE = "evaluate"


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked for on the command line; what is empty is as configured.

    Attributes:
        tasks: folder of tasks, or one task.
        harnesses: names of adapters.
        n: tries at each task.
        label: names the evaluation.
        as_json: the report on stdout instead of a table.
    """

    tasks: str
    harnesses: tuple[str, ...]
    n: int
    label: str
    as_json: bool


async def evaluate(config: Config, asked: Asked) -> int:
    """Runs the evaluation and prints its report; returns 0 if every episode was scored, 1 if the infrastructure lost some.

    Raises:
        ForgeError: tasks, harnesses or the model cannot be used, or the stack failed.
    """
    wish = _wish(config, asked)
    check_stack(config)
    plan = make_plan(config, ("proxy", "orchestrator", "collector"))
    view = View(plan.config.run.id, str(plan.folder))
    return await until_signal(_evaluate(plan, view, wish, asked), lambda: _say_interrupted(view, plan))


def _wish(config: Config, asked: Asked) -> Wish:
    folder = asked.tasks or config.tasks.heldout
    if not folder:
        raise ConfigError("there are no tasks: name their folder with --tasks, or set tasks.heldout")
    names = tuple(dict.fromkeys(asked.harnesses)) or (config.trainer.harness,)
    for name in names:
        harness(name, config.orchestrator.harness_dir)
    return Wish(read_tasks(Path(folder)), names, asked.n)


async def _evaluate(plan: Plan, view: View, wish: Wish, asked: Asked) -> int:
    began = time.time()
    with view.show():
        async with Stack(plan, view) as stack:
            view.note(f"{wish.episodes} episodes: {len(wish.tasks)} tasks x {wish.n} in {', '.join(wish.harnesses)}")
            await unless_stack_fails(stack.engine_ready(), stack)
            rows = _Rows(plan.folder / EPISODES, view, wish.episodes, plan.config.run.id)
            episodes = await unless_stack_fails(
                Drive(stack.bus, plan.config, rows.add).run(plan_groups(wish, plan.config.run.id)), stack
            )
    report = _report(plan.config, wish, asked, episodes, began)
    (plan.folder / FILE).write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    _print(report, plan.folder, asked.as_json)
    return 0 if not report.unscored else 1


class _Rows:
    """Writes episodes as they end, so that an evaluation that is interrupted leaves what it has."""

    def __init__(self, file: Path, view: View, total: int, run_id: str) -> None:
        self._file, self._view, self._total, self._run_id = file, view, total, run_id
        self._done = self._solved = 0

    def add(self, episodes: list[Episode]) -> None:
        with self._file.open("ab") as f:
            f.writelines(msgspec.json.encode(e) + b"\n" for e in episodes)
        self._done += len(episodes)
        self._solved += sum((e.reward or 0) >= 1 for e in episodes)
        detail = f"{self._solved} solved"
        self._view.on_message(RunStaged(run_id=self._run_id, stage=_STAGE, detail=detail, done=self._done, total=self._total))


def _report(config: Config, wish: Wish, asked: Asked, episodes: list[Episode], began: float) -> Report:
    digests = {task.name: task.digest for task in wish.tasks}
    tasks = [msgspec.structs.replace(t, digest=digests[t.task]) for t in task_scores(episodes)]
    return Report(
        label=asked.label or config.run.id, model=config.engine.model or config.engine.served_name, mode=config.proxy.mode,
        temperature=config.proxy.temperature, seed=config.run.seed, n=wish.n, at=time.time(), wall_s=time.time() - began,
        outcomes=outcomes(episodes), scores=scores(tasks), tasks=tasks,
    )  # fmt: skip


def _print(report: Report, folder: Path, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
        return
    console = Console(highlight=False)
    console.print(report_table(report))
    if report.unscored:
        lost = ", ".join(f"{n} {name}" for name, n in report.outcomes.items() if name not in ("finished", "timed_out"))
        console.print(f"{report.unscored} episodes are not scored and count nowhere ({lost}); see {EPISODES}")
    console.print(f"Everything is in {folder}", soft_wrap=True)


def _say_interrupted(view: View, plan: Plan) -> None:
    view.console.print(
        f"ended by a signal; every process was stopped. Episodes that ended: {plan.folder / EPISODES}", highlight=False
    )
