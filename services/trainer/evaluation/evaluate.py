"""Success on held-out tasks in the course of a run, at the temperature and limits of training."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from statistics import fmean

import msgspec

from services.trainer.books.metrics_file import SUCCESS
from services.trainer.evaluation.report import SOLVED, Report, Score, TaskScore, scores
from services.trainer.groups.desk import GroupDesk, outcomes_text
from services.trainer.groups.tasks import eval_plan
from services.trainer.journal.records import Planned
from services.trainer.journal.state import Group
from shared.config import Config
from shared.errors import ForgeError
from shared.task import name_and_family

MAX_UNSCORED = 0.1
"""Share of episodes that the infrastructure may lose."""
FOLDER = "evaluations"
"""Of the run folder: a report of each evaluation, which `openforge eval compare` takes."""

Tell = Callable[[int, int], Awaitable[None]]
"""Told of episodes done and episodes in all."""


async def evaluate(desk: GroupDesk, tasks: list[Path], config: Config, label: str, tell: Tell) -> Report:
    """Runs held-out episodes, all at once, and scores them. All evaluations of a run are sampled with the same seeds.

    Args:
        desk: starts groups.
        tasks: held-out task folders.
        config: says how many episodes in all, which are spread evenly over the tasks, and by when they have to be there.
        label: names the groups: `before`, `after`, `step-20`.
        tell: told of progress.

    Raises:
        ForgeError: they did not end in time, or too many were lost.
    """
    episodes = config.trainer.eval_episodes
    until = asyncio.get_running_loop().time() + config.trainer.step_timeout_s
    for i, (task, size) in enumerate(eval_plan(tasks, episodes)):
        await desk.start(Planned(name=f"eval-{label}-g{i:03}", task=str(task), size=size, purpose="eval", seed=f"eval/{i}"))
    groups: list[Group] = []
    while desk.open:
        groups.append(await desk.next(until))
        await tell(sum(g.plan.size for g in groups), episodes)
    return report_of(groups, config, label)


def report_of(groups: Sequence[Group], config: Config, label: str) -> Report:
    """Counts the episodes of closed groups. One that ran out of time is scored, solved or not.

    Raises:
        ForgeError: more episodes than can be ignored were lost.
    """
    tasks = sorted((_task_score(g, config.trainer.harness) for g in groups), key=lambda t: t.task)
    totals = sum((Counter(g.result.outcomes) for g in groups), Counter[str]())
    made = Report(
        label=label, model=config.run.id, mode=config.proxy.mode, temperature=config.proxy.temperature, seed=config.run.seed,
        n=max(g.plan.size for g in groups), at=time.time(), outcomes=dict(sorted(totals.items())), tasks=tasks,
        scores=scores(tasks),
    )  # fmt: skip
    episodes = sum(g.plan.size for g in groups)
    if made.unscored > MAX_UNSCORED * episodes:
        lost = f"{made.unscored} of {episodes} held-out episodes were lost"
        raise ForgeError(f"{lost}: {outcomes_text(g.result for g in groups)}; see the orchestrator's log")
    return made


def write_report(report: Report, folder: Path) -> None:
    """Leaves a report in the run folder, in one piece."""
    target = folder / FOLDER / f"{report.label}.json"
    target.parent.mkdir(exist_ok=True)
    part = target.with_suffix(".part")
    part.write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    part.replace(target)


def evaluation_metrics(report: Report) -> dict[str, float]:
    """An evaluation as one, `heldout/...`, and family by family under veRL's names."""
    metrics: dict[str, float] = {SUCCESS: report.success}
    metrics |= {"heldout/episodes": report.scored, "heldout/unscored": report.unscored}
    whole, *families = report.scores
    first = whole.pass_at[1]
    metrics |= {} if first.low is None or first.high is None else {f"{SUCCESS}/low": first.low, f"{SUCCESS}/high": first.high}
    for score in families or [msgspec.structs.replace(whole, family=report.tasks[0].family)]:
        metrics |= _family_metrics(score.family, score)
    if calls := [n for task in report.tasks for n in task.calls]:
        turns = {"min": min(calls), "max": max(calls), "mean": fmean(calls)}
        metrics |= {f"val-aux/num_turns/{name}": value for name, value in turns.items()}
    return metrics


def _family_metrics(family: str, score: Score) -> dict[str, float]:
    """veRL's best@k is pass@k; all@k is pass^k, which it does not have. The largest k is the core."""
    if not score.pass_at or score.reward is None:
        return {}
    n = max(score.pass_at)
    core = {f"val-core/{family}/acc/mean@{n}": score.pass_at[1].value}
    best = {f"val-{'core' if k == n else 'aux'}/{family}/acc/best@{k}/mean": e.value for k, e in score.pass_at.items() if k > 1}
    every = {f"val-aux/{family}/acc/all@{k}/mean": e.value for k, e in score.pass_all.items() if k > 1}
    return core | best | every | {f"val-aux/{family}/reward/mean@{n}": score.reward.value}


def _task_score(group: Group, harness: str) -> TaskScore:
    result, (name, family) = group.result, name_and_family(Path(group.plan.task))
    # A group whose trajectories cannot be had says nothing, whatever became of its rollouts.
    tried = 0 if result.refused else result.graded
    rewards = [t.reward for t in result.trajectories]
    return TaskScore(
        task=name, family=family, harness=harness, tried=tried, solved=sum(r >= SOLVED for r in rewards),
        unscored=group.plan.size - tried, reward=sum(rewards) / tried if tried else None,
        calls=[t.calls for t in result.trajectories],
    )  # fmt: skip
