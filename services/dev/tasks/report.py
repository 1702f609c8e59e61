"""What is known of a task after its checks, and how it is shown. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table

from services.synth.model import Ended
from shared.task.lint import Finding

NAMED = 3
"""So many tasks are named with what is true of them."""
EXPECTED = {"null": 0.0, "oracle": 1.0}


@dataclass(slots=True)
class Checked:
    """A task and what its checks found.

    Attributes:
        folder: of the task.
        name: of the task.
        findings: without running it.
        skipped: why it was not run.
        solved: it has its solution.
        runs: of each agent.
    """

    folder: Path
    name: str
    findings: list[Finding]
    skipped: str = ""
    solved: bool = False
    runs: dict[str, list[Ended]] = field(default_factory=dict)

    @property
    def problems(self) -> list[str]:
        """What is wrong with it."""
        found = [finding.text for finding in self.findings if finding.level == "error"]
        for agent, runs in self.runs.items():
            found += _problems(agent, runs)
        return found

    @property
    def state(self) -> str:
        """In a word."""
        return "wrong" if self.problems else "not run" if self.skipped else "good"

    def reward(self, agent: str) -> str:
        """What an agent got, for a person."""
        runs = self.runs.get(agent, [])
        return " ".join(sorted({"none" if run.reward is None else f"{run.reward:g}" for run in runs})) if runs else "-"

    def as_json(self) -> dict[str, Any]:
        """As a table of plain values."""
        return {
            "task": self.name, "folder": str(self.folder), "state": self.state, "problems": self.problems,
            "warnings": [f.text for f in self.findings if f.level == "warning"], "skipped": self.skipped,
            "runs": {agent: [_run(run) for run in runs] for agent, runs in self.runs.items()},
        }  # fmt: skip


def _problems(agent: str, runs: list[Ended]) -> list[str]:
    rewards = {run.reward for run in runs}
    if len(rewards) > 1:
        return [f"{agent}: rewards differ from run to run: {', '.join(sorted(map(str, rewards)))}"]
    run = runs[0]
    if run.reward == EXPECTED[agent]:
        return []
    what = "no reward" if run.reward is None else f"reward {run.reward:g}, expected {EXPECTED[agent]:g}"
    return [f"{agent}: {what}{f' ({run.error})' if run.error else ''}"]


def _run(run: Ended) -> dict[str, Any]:
    return {"reward": run.reward, "error": run.error, "seconds": round(run.seconds, 3), "said": run.said}


def table(checked: list[Checked]) -> Table:
    """One line a task."""
    grid = Table(box=None, pad_edge=False)
    for column in ("task", "null", "oracle", "seconds", "state"):
        grid.add_column(column, overflow="fold", justify="left" if column in ("task", "state") else "right")
    for task in checked:
        runs = [run for agent in task.runs.values() for run in agent]
        seconds = f"{sum(run.seconds for run in runs):.1f}" if runs else ""
        grid.add_row(task.name, task.reward("null"), task.reward("oracle"), seconds, task.state)
    return grid


def notes(checked: list[Checked]) -> list[str]:
    """What there is to say, each thing once with the tasks that it is true of; problems first."""
    said: dict[tuple[int, str], list[str]] = {}
    for task in checked:
        warnings = [f.text for f in task.findings if f.level == "warning" and f.text != task.skipped]
        for rank, texts in enumerate((task.problems, [task.skipped] if task.skipped else [], warnings)):
            for text in texts:
                said.setdefault((rank, text), []).append(task.name)
    words = ("wrong", "not run", "warning")
    return [f"{words[rank]}: {text}: {names(of)}" for (rank, text), of in sorted(said.items())]


def names(names: list[str]) -> str:
    """Some of these names, and how many more there are."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def summary(checked: list[Checked], wall_s: float) -> str:
    """Figures of all."""
    parts = []
    for agent, expected in EXPECTED.items():
        ran = [task.runs[agent] for task in checked if task.runs.get(agent)]
        right = sum(all(run.reward == expected for run in runs) for runs in ran)
        parts.append(f"{agent} {expected:g}: {right} of {len(ran)}")
    states = [task.state for task in checked]
    counted = ", ".join(f"{states.count(state)} {state}" for state in ("good", "wrong", "not run") if state in states)
    return f"{len(checked)} tasks in {wall_s:.1f} s: {counted}; {'; '.join(parts)}"
