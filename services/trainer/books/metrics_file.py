"""`metrics.jsonl`: a line per training step, and one per evaluation, each with its step; both also go to the trackers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

METRICS = "metrics.jsonl"
SUCCESS = "heldout/success"
"""Metric of an evaluation, by which its line is known: share of scored held-out episodes with reward 1."""

Told = Callable[[int, dict[str, float]], None]
"""Told of the metrics of a step, once they are in the file."""


class _Line(msgspec.Struct, rename={"success": SUCCESS}):
    step: int
    success: float | None = None


class MetricsFile:
    """The file of one run. What an earlier trainer wrote stays, and is not written again.

    Attributes:
        told: hears of every new line.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self.told: Told = lambda step, metrics: None
        known = _repair(file)
        self._steps = {line.step for line in known if line.success is None}
        self._evaluated = {line.step for line in known if line.success is not None}

    def add_step(self, step: int, at: float, metrics: dict[str, float]) -> None:
        """Appends the line of a training step, unless there is one."""
        self._add(self._steps, step, at, metrics)

    def add_evaluation(self, step: int, at: float, metrics: dict[str, float]) -> None:
        """Appends the line of an evaluation after a step (0: before the first), unless there is one."""
        self._add(self._evaluated, step, at, metrics)

    def _add(self, known: set[int], step: int, at: float, metrics: dict[str, float]) -> None:
        if step in known:
            return
        with self._file.open("ab") as f:
            f.write(msgspec.json.encode({"step": step, "at": at, **metrics}) + b"\n")
        known.add(step)
        self.told(step, metrics)


def _repair(file: Path) -> list[_Line]:
    """Cuts off a line that was not written to its end. Returns those that were."""
    if not file.exists():
        return []
    data = file.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) < len(data):
        file.write_bytes(whole)
    return [msgspec.json.decode(line, type=_Line) for line in whole.splitlines()]
