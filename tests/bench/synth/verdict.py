"""What the bench saw, and whether it is what it should be. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from services.synth.candidate import Candidate
from tests.bench.synth.planting import Plan


def verdict(plan: Plan, tasks: Sequence[Candidate], facts: dict[str, Any]) -> dict[str, Any]:
    """The counts as JSON; `good` if each defect was caught by a gate that is to catch it, each sound task accepted, and nothing
    that had ended was made again.

    Args:
        plan: what was planted.
        tasks: all candidates.
        facts: what else was seen: kills, rollouts, time, trials that were made again.
    """
    known = {task.number: task for task in tasks}
    sound = [known.get(number) for number in range(plan.sound)]
    accepted = [task for task in sound if task and task.stage == "accepted"]
    defects = {name: _defect(plan, known, name) for name in dict.fromkeys(defect.name for defect in plan.planted)}
    wrong = [_said(task) for task in sound if task and task.stage != "accepted"]
    good = (
        len(accepted) == plan.sound and all(d["caught"] == d["planted"] for d in defects.values()) and not facts["made_again"]
    )
    caught = sum(d["caught"] for d in defects.values())
    return {
        "good": good, "proposals": plan.count,
        "sound": {"planted": plan.sound, "accepted": len(accepted), "turned_down": wrong},
        "defects": {"planted": len(plan.planted), "caught": caught, "by_name": defects},
        **facts,
    }  # fmt: skip


def _defect(plan: Plan, known: dict[int, Candidate], name: str) -> dict[str, Any]:
    numbers = [n for n in range(plan.sound, plan.count) if plan.planted[n - plan.sound].name == name]
    gates = plan.planted[numbers[0] - plan.sound].gates
    tasks = [known[number] for number in numbers if number in known]
    by = Counter(f"{task.gate}: {task.reason}" if task.over and task.stage != "accepted" else task.stage for task in tasks)
    caught = [task for task in tasks if task.over and task.stage != "accepted" and task.gate in gates]
    missed = [_said(task) for task in tasks if task not in caught]
    return {"planted": len(numbers), "caught": len(caught), "expected": list(gates), "by": dict(by), "missed": missed}


def _said(task: Candidate) -> str:
    return f"{task.task_id} {task.name}: {task.stage} {task.gate} {task.reason} {task.held or task.detail[:200]}".strip()
