"""`openforge tasks check --gates`: what the gates of task synthesis say of tasks that somebody else made."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from services.dev.scratch import scratch
from services.dev.signals import until_signal
from services.dev.tasks.check import Wish, bar, folders_of, say_interrupted
from services.dev.tasks.importing import needs_of
from services.dev.tasks.known import AsAccepted
from services.dev.tasks.report import names
from services.dev.tasks.trials import trials
from services.synth.books import known_file
from services.synth.gates import gates_of
from services.synth.gates.texts import text_of
from services.synth.model import Lineage, Proposal, Verdict
from services.synth.ports import Gate, Room, Text
from shared.config import Config, OrchestratorConfig, SynthConfig
from shared.config.synth import GatesConfig
from shared.errors import SandboxError, TaskError
from shared.task import name_and_family

_READ = ("schema", "answers", "copies", "contamination")
"""Gates that run nothing."""
_AT_ONCE = 4
"""Tasks that are looked at."""


@dataclass(slots=True)
class Gated:
    """A task, what it is compared by, and what the gates said of it."""

    folder: Path
    name: str
    family: str
    text: Text | None
    needs: str
    verdicts: list[Verdict] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Others:
    """The tasks that one is compared with."""

    before: Sequence[Text]
    evaluation: Sequence[Text]

    def accepted(self) -> Sequence[Text]:
        """See `Pool.accepted`: those that come before it, so that of two that are alike one is named."""
        return self.before

    def held_out(self) -> Sequence[Text]:
        """See `Pool.held_out`."""
        return self.evaluation


async def gated(wish: Wish, heldout: Sequence[Path]) -> int:
    """Asks every gate that needs no model about every task, also after one that it fails; prints what they say. Returns 1 if a
    task failed any.

    Args:
        wish: what to look at.
        heldout: folders of tasks that no task may be like.

    Raises:
        TaskError: there is no task.
        ConfigError, SandboxError: as in `check`.
    """
    started = time.monotonic()
    tasks = [_read(folder) for folder in folders_of(wish.folder)]
    evaluation = [text_of(folder) for top in heldout for folder in folders_of(top)]
    code = await until_signal(_run(tasks, wish, evaluation), say_interrupted)
    return code or _report(tasks, wish, time.monotonic() - started)


def _read(folder: Path) -> Gated:
    name, family = name_and_family(folder)
    try:
        text, needs = text_of(folder), needs_of(folder)
    except TaskError:  # the first gate says what is wrong with it
        return Gated(folder, name, family, None, "")
    return Gated(folder, name, family, text, f"it needs {' and '.join(needs)}" if needs else "")


async def _run(tasks: list[Gated], wish: Wish, evaluation: Sequence[Text]) -> int:
    gates, texts, places = _gates(wish, tasks), [task.text for task in tasks], asyncio.Semaphore(_AT_ONCE)
    with bar("asking the gates", len(tasks)) as advance, scratch() as top:
        async with trials(wish.settings, wish.keep) as running:

            async def one(number: int, task: Gated) -> None:
                others = Others([text for text in texts[:number] if text], evaluation)
                async with places:
                    await _ask(task, gates, Room(running, others, Path(top, f"t{number}"), {}), f"t{number}")
                advance()

            await asyncio.gather(*(one(number, task) for number, task in enumerate(tasks)))
    return 0


def _gates(wish: Wish, tasks: Sequence[Gated]) -> list[Gate]:
    """Those to be asked; where some were accepted by us, also whether they are still what they were."""
    settings = OrchestratorConfig() if wish.lint_only else wish.settings
    config = Config(orchestrator=settings, synth=SynthConfig(gates=GatesConfig(repeats=max(wish.runs, 3))))
    asked = [gate for gate in gates_of(config) if gate.name not in ("rubric", "difficulty")]
    if wish.lint_only:
        return [gate for gate in asked if gate.name in _READ]
    return [AsAccepted(settings), *asked] if any(known_file(task.folder).is_file() for task in tasks) else asked


async def _ask(task: Gated, gates: Sequence[Gate], room: Room, task_id: str) -> None:
    """Asks them about a task. One that cannot be loaded is not looked at further; one that needs something else is not run."""
    lineage = Lineage(generator="import", source=str(task.folder))
    proposal = Proposal(
        task_id=task_id, domain="claw", family=task.family, title=task.name, brief=task.text.text if task.text else "",
        lineage=lineage,
    )  # fmt: skip
    for gate in gates:
        if task.needs and gate.name not in _READ:
            verdict = Verdict(gate=gate.name, outcome="skipped", detail=task.needs)
        elif task.text is None and gate.name != "schema":
            verdict = Verdict(gate=gate.name, outcome="skipped", detail="it cannot be loaded")
        else:
            verdict = await _asked(gate, proposal, task.folder, room)
        task.verdicts.append(verdict)
        task.needs = task.needs or _not_here(verdict)


def _not_here(verdict: Verdict) -> str:
    """Why a task cannot be run here, as the gate that reads it says."""
    found = verdict.evidence.get("findings", ())
    return next((str(one["text"]) for one in found if one["reason"] == "cannot-run-here"), "")


async def _asked(gate: Gate, proposal: Proposal, folder: Path, room: Room) -> Verdict:
    try:
        return await gate.judge(proposal, folder, room)
    except SandboxError as e:
        return Verdict(gate=gate.name, outcome="skipped", detail=f"no sandbox could be had: {e}")


def _report(tasks: list[Gated], wish: Wish, wall_s: float) -> int:
    wrong = [task for task in tasks if any(verdict.outcome == "failed" for verdict in task.verdicts)]
    if wish.as_json:
        content = {"wall_s": round(wall_s, 2), "good": not wrong, "tasks": [_as_json(task) for task in tasks]}
        sys.stdout.write(json.dumps(content, indent=1) + "\n")
        return int(bool(wrong))
    console = Console()
    console.print(table([task.verdicts for task in tasks]), highlight=False, markup=False)
    for line in notes(tasks):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    console.print(f"{len(tasks)} tasks in {wall_s:.1f} s: {len(tasks) - len(wrong)} passed every gate that could look")
    return int(bool(wrong))


def _as_json(task: Gated) -> dict[str, Any]:
    return {"task": task.name, "folder": str(task.folder), "verdicts": [msgspec.to_builtins(one) for one in task.verdicts]}


def table(asked: Sequence[Sequence[Verdict]]) -> Table:
    """A line a gate: how many passed, failed and were not looked at, and why they failed."""
    grid = Table(box=None, pad_edge=False)
    for column in ("gate", "passed", "failed", "skipped", "reasons"):
        grid.add_column(column, overflow="fold", justify="left" if column in ("gate", "reasons") else "right")
    every = [verdict for verdicts in asked for verdict in verdicts]
    for gate in dict.fromkeys(verdict.gate for verdict in every):
        said = [verdict for verdict in every if verdict.gate == gate]
        counts = (sum(verdict.outcome == outcome for verdict in said) for outcome in ("passed", "failed", "skipped"))
        reasons = Counter(verdict.reason for verdict in said if verdict.reason).most_common()
        grid.add_row(gate, *map(str, counts), ", ".join(f"{reason} {count}" for reason, count in reasons))
    return grid


def notes(tasks: Sequence[Gated]) -> list[str]:
    """For each gate and reason the tasks that it is true of, with what is said of the first; then why it did not look."""
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    skipped: dict[tuple[str, str], list[str]] = {}
    for task in tasks:
        for verdict in task.verdicts:
            if verdict.outcome == "failed":
                found.setdefault((verdict.gate, verdict.reason), []).append((task.name, verdict.detail.partition("\n")[0]))
            elif verdict.outcome == "skipped":
                skipped.setdefault((verdict.gate, verdict.detail.partition("\n")[0]), []).append(task.name)
    lines = [f"{gate}: {why}: {names([name for name, _ in of])}: {of[0][1]}" for (gate, why), of in found.items()]
    return lines + [f"{gate} did not look at {names(of)}: {why}" for (gate, why), of in skipped.items()]
