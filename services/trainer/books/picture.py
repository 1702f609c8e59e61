"""The picture of a run: reward and success per step, as PNG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from services.trainer.books.metrics_file import METRICS, SUCCESS
from shared.errors import ConfigError

FILE = "training.png"

_Points = list[tuple[int, float]]


@dataclass(slots=True)
class Curves:
    """What is drawn: points (step, value), and of success also its interval (step, low, high)."""

    reward: _Points = field(default_factory=list)
    success: _Points = field(default_factory=list)
    interval: list[tuple[int, float, float]] = field(default_factory=list)


def read_curves(file: Path) -> Curves:
    """The curves of a `metrics.jsonl`.

    Raises:
        ConfigError: there is none, or nothing in it that could be drawn.
    """
    try:
        lines = file.read_bytes().splitlines()
    except OSError as e:
        raise ConfigError(f"{file}: {e.strerror}; a run writes it step by step") from None
    curves = Curves()
    for line in lines:
        _add(curves, msgspec.json.decode(line, type=dict[str, float | None]))
    if not curves.reward and not curves.success:
        raise ConfigError(f"{file}: no step with a reward and no evaluation in it yet")
    return curves


def draw(curves: Curves, file: Path, title: str) -> None:
    """Writes the picture, in one piece."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(8, 4.5), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    if curves.reward:
        steps, values = zip(*curves.reward, strict=True)
        axes.plot(steps, values, color="#9db8d9", linewidth=1.2, marker=".", label="mean reward of training rollouts")
        axes.plot(steps, _smooth(values), color="#1f5fa8", linewidth=2.2, label="the same, mean of 5 steps")
    if curves.interval:
        steps, lows, highs = zip(*curves.interval, strict=True)
        middle = [dict(curves.success)[s] for s in steps]
        below, above = ([abs(m - e) for m, e in zip(middle, ends, strict=True)] for ends in (lows, highs))
        axes.errorbar(steps, middle, yerr=[below, above], fmt="none", color="#c4541a", capsize=4, linewidth=1.2)
    if curves.success:
        steps, values = zip(*curves.success, strict=True)
        axes.plot(steps, values, color="#c4541a", linewidth=2.2, marker="o", label="success on held-out tasks (95 % interval)")
    drawn = [0.0, 1.0, *(v for _, v in curves.reward + curves.success)]
    axes.set(title=title, xlabel="training step", ylabel="reward, success", ylim=(min(drawn) - 0.03, max(drawn) + 0.03))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    axes.legend(loc="best", framealpha=0.9)
    part = file.with_suffix(".part")
    figure.savefig(part, format="png")
    part.replace(file)


def draw_run(folder: Path) -> Path:
    """Draws the run of a folder; returns the picture.

    Raises:
        ConfigError: there is nothing to draw.
    """
    target = folder / FILE
    draw(read_curves(folder / METRICS), target, f"run {folder.name}")
    return target


def _add(curves: Curves, line: dict[str, float | None]) -> None:
    step = int(line.get("step") or 0)
    if (reward := line.get("critic/rewards/mean")) is not None:
        curves.reward.append((step, reward))
    if (success := line.get(SUCCESS)) is not None:
        curves.success.append((step, success))
        low, high = line.get(f"{SUCCESS}/low"), line.get(f"{SUCCESS}/high")
        if low is not None and high is not None:
            curves.interval.append((step, low, high))


def _smooth(values: Sequence[float], width: int = 5) -> list[float]:
    """The mean of each value and those before it, `width` in all."""
    windows = [values[max(0, i - width + 1) : i + 1] for i in range(len(values))]
    return [sum(w) / len(w) for w in windows]
