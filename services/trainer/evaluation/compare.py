"""Whether two evaluations differ: paired task by task. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

import msgspec

from services.trainer.evaluation.intervals import Difference, paired
from services.trainer.evaluation.report import Report, TaskScore
from shared.errors import ConfigError

SHOWN = 5
"""Names that a note gives."""


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """A quantity in both: the mean over the common tasks in A and in B, and the difference B - A."""

    a: float
    b: float
    difference: Difference


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One harness (or one of A beside another of B): success is the share of solved tries, a vote a task."""

    harness: str
    success: Compared
    reward: Compared


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two evaluations beside each other; `notes` say what is not alike about them, a line each."""

    lines: list[Line]
    notes: list[str]


def compare(a: Report, b: Report) -> Comparison:
    """Pairs the tasks that both have scored, harness by harness.

    Raises:
        ConfigError: they have no task in common.
    """
    pairs, notes = _pairs(a, b), _settings(a, b)
    lines = []
    for name, (of_a, of_b) in pairs.items():
        common = sorted(of_a.keys() & of_b.keys())
        notes += _sets(name, of_a, of_b)
        if common:
            lines.append(_line(name, [of_a[t] for t in common], [of_b[t] for t in common]))
    if not lines:
        raise ConfigError("the evaluations have no task in common that both have scored; compare runs on one task set")
    return Comparison(lines=lines, notes=notes)


_Tasks = dict[str, TaskScore]


def _pairs(a: Report, b: Report) -> dict[str, tuple[_Tasks, _Tasks]]:
    """Scored tasks of A and B by the harness that both have; two different ones are compared where each has only one."""
    of_a, of_b = _by_harness(a), _by_harness(b)
    if common := sorted(of_a.keys() & of_b.keys()):
        return {name: (of_a[name], of_b[name]) for name in common}
    if len(of_a) == len(of_b) == 1:
        (x, left), (y, right) = *of_a.items(), *of_b.items()
        return {f"{x} / {y}": (left, right)}
    raise ConfigError(f"no harness is in both: A has {', '.join(of_a) or 'none'}, B has {', '.join(of_b) or 'none'}")


def _by_harness(report: Report) -> dict[str, _Tasks]:
    found: dict[str, _Tasks] = {}
    for task in report.tasks:
        if task.tried:
            found.setdefault(task.harness, {})[task.task] = task
    return found


def _line(name: str, a: Sequence[TaskScore], b: Sequence[TaskScore]) -> Line:
    success = [[t.solved / t.tried for t in side] for side in (a, b)]
    rewards = [[t.reward or 0.0 for t in side] for side in (a, b)]
    return Line(harness=name, success=_compared(*success), reward=_compared(*rewards))


def _compared(a: Sequence[float], b: Sequence[float]) -> Compared:
    return Compared(a=fmean(a), b=fmean(b), difference=paired([y - x for x, y in zip(a, b, strict=True)]))


def _sets(name: str, a: Mapping[str, TaskScore], b: Mapping[str, TaskScore]) -> list[str]:
    """What is not alike about two sets of tasks."""
    only_a, only_b = sorted(a.keys() - b.keys()), sorted(b.keys() - a.keys())
    known = [t for t in sorted(a.keys() & b.keys()) if a[t].digest and b[t].digest]
    changed = [t for t in known if a[t].digest != b[t].digest]
    told = [(only_a, "scored only in A and left out"), (only_b, "scored only in B and left out")]
    told += [(changed, "of one name but not of the same content; they are compared all the same")]
    return [f"{name}: {len(tasks)} tasks are {what}: {_some(tasks)}" for tasks, what in told if tasks]


def _settings(a: Report, b: Report) -> list[str]:
    """Settings that make two evaluations hard to compare."""
    pairs = [("proxy mode", a.mode, b.mode), ("temperature", a.temperature, b.temperature), ("tries a task", a.n, b.n)]
    return [f"{name} differs: {x} in A, {y} in B" for name, x, y in pairs if x != y]


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")
