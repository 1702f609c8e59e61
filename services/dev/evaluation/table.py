"""Evaluations and comparisons for people."""

from __future__ import annotations

from rich.table import Table

from services.trainer.evaluation.compare import Compared, Comparison
from services.trainer.evaluation.intervals import Estimate
from services.trainer.evaluation.report import Report, Score


def report_table(report: Report) -> Table:
    """Harness by harness, family by family; of the k that were estimated, 1 and the largest."""
    table = Table(title=f"{report.model or report.label}: 95 % intervals over tasks", box=None, padding=(0, 2, 0, 0))
    most = max((max(s.pass_at, default=1) for s in report.scores), default=1)
    rates = ["pass@1", *([f"pass@{most}", f"pass^{most}"] if most > 1 else [])]
    for name in ("harness", "family", "tasks", "episodes", *rates, "reward", "unscored"):
        table.add_column(name, no_wrap=name in ("harness", *rates))
    for score in report.scores:
        table.add_row(*_cells(score, most), style=None if score.family else "bold")
    return table


def comparison_table(comparison: Comparison) -> Table:
    """One line per harness, B minus A."""
    table = Table(title="B - A, paired by task, 95 % intervals", box=None, padding=(0, 2, 0, 0))
    for name in ("harness", "what", "tasks", "A", "B", "difference", "p"):
        table.add_column(name, no_wrap=name not in ("harness",))
    for line in comparison.lines:
        for what, compared in (("success", line.success), ("reward", line.reward)):
            table.add_row(line.harness, what, *_compared(compared))
    return table


def estimate_text(estimate: Estimate | None) -> str:
    """``.713 [.612 .799]``; without an interval where there is none."""
    if estimate is None:
        return "-"
    return f"{_number(estimate.value)}{_interval(estimate.low, estimate.high)}"


def _cells(score: Score, most: int) -> list[str]:
    rates = [score.pass_at.get(1)]
    if most > 1:
        rates += [score.pass_at.get(most), score.pass_all.get(most)]
    cells = [score.harness if not score.family else "", score.family or "all", str(score.tasks), str(score.episodes)]
    return [
        *cells,
        *map(estimate_text, rates),
        "-" if score.reward is None else f"{score.reward.value:.3g}",
        str(score.unscored),
    ]


def _compared(compared: Compared) -> list[str]:
    d = compared.difference
    difference = f"{d.value:+.3f}{_interval(d.low, d.high, '+')}"
    return [str(d.tasks), f"{compared.a:.3f}", f"{compared.b:.3f}", difference, f"{d.p:.3g}{'' if d.exact else ' (sampled)'}"]


def _interval(low: float | None, high: float | None, sign: str = "") -> str:
    return "" if low is None or high is None else f" [{low:{sign}.3f} {high:{sign}.3f}]"


def _number(value: float) -> str:
    return f"{value:.3f}"
