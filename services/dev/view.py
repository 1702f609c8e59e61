"""Shows a run to a person: a live picture on a terminal, a line per event that matters elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from services.dev.progress import Progress
from shared.events import Message, RunEvaluated, RunFinished, RunStaged, RunStepped, WeightsFailed

_BARS = "▁▂▃▄▅▆▇█"
_SAY_EVERY_S = 10.0


def sparkline(values: list[float], low: float = 0.0, high: float = 1.0) -> str:
    """Values as block characters.

    >>> sparkline([0.0, 0.5, 1.0])
    '▁▅█'
    """
    span = (high - low) or 1.0
    return "".join(_BARS[min(7, max(0, int((v - low) / span * 8)))] for v in values)


class View:
    """What the person who started a run sees."""

    def __init__(self, run_id: str, folder: str, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self.progress = Progress()
        self._title = f"OpenForgeRL  run {run_id}"
        self._folder = folder
        self._notes: list[str] = []
        self._began = time.monotonic()
        self._said = 0.0
        self._live: Live | None = None

    def show(self) -> AbstractContextManager[object]:
        """Draws for as long as the context lasts; nothing but lines where there is no terminal."""
        if not self.console.is_terminal:
            return nullcontext()
        self._live = Live(console=self.console, get_renderable=self.render, refresh_per_second=6, transient=True)
        return self._live

    def note(self, text: str) -> None:
        """Something a person should know."""
        self._notes = [*self._notes[-3:], f"{self._clock()} {text}"]
        if self._live is None:
            self.console.print(f"[{self._clock()}] {text}", highlight=False, markup=False, soft_wrap=True)

    def on_message(self, message: Message) -> None:
        """Folds a message in; without a terminal, says it if it matters."""
        before = self.progress.stage
        self.progress.apply(message)
        match message:
            case RunStaged() if self._live is None:
                self._say_stage(message, new=before is None or before.stage != message.stage)
            case RunStepped() if self._live is None:
                self.note(step_line(message))
            case RunEvaluated():
                self.note(f"held-out success {message.label}: {message.success:.3f} over {message.episodes} episodes")
            case WeightsFailed():
                self.note(f"{message.engine} takes no calls until it has weights {message.version}: {message.error}")
            case RunFinished() if not message.ok:
                self.note(f"the run failed: {message.error}")
            case _:
                pass

    def render(self) -> Panel:
        """The live picture."""
        p = self.progress
        parts: list[RenderableType] = [self._stage(), Text(), self._facts()]
        if p.rewards:
            parts += [Text(), Text(f"reward per step   {sparkline(p.rewards)}  {p.rewards[-1]:.2f}", style="bold green")]
        if p.running:
            parts += [Text(), self._rollouts()]
        parts += [Text(note, style="dim") for note in self._notes]
        return Panel(Group(*parts), title=self._title, subtitle=f"{self._clock()}  {self._folder}  Ctrl-C ends it", width=100)

    def _say_stage(self, message: RunStaged, new: bool) -> None:
        """A stage's beginning, and where it has got to every now and then."""
        if new or time.monotonic() - self._said > _SAY_EVERY_S:
            self._said = time.monotonic()
            where = f" ({message.done}/{message.total})" if message.total and message.done else ""
            self.note(f"{message.stage}: {message.detail}{where}")

    def _stage(self) -> Table:
        stage = self.progress.stage
        grid = Table.grid(padding=(0, 2))
        name = Text(stage.stage if stage else "starting", style="bold cyan")
        bar = ProgressBar(total=stage.total, completed=stage.done, width=30) if stage and stage.total else Text("")
        grid.add_row(name, bar, Text(stage.detail if stage else "servers, services and the engine"))
        return grid

    def _facts(self) -> Table:
        p, grid = self.progress, Table.grid(padding=(0, 3))
        held = "  ".join(f"{k} {e.success:.2f}" for k, e in p.evaluations.items()) or "-"
        outcomes = "  ".join(f"{n} {k}" for k, n in sorted(p.outcomes.items())) or "-"
        rows: list[tuple[str, str]] = [
            ("held-out success", held),
            ("weight version", "-" if p.version < 0 else f"v{p.version}"),
            ("groups", f"{p.groups['completed']} completed  {p.groups['discarded']} discarded"),
            ("rollouts", f"{len(p.running)} running  {len(p.waiting)} waiting  {outcomes}"),
            ("calls recorded", f"{p.calls}  ({p.tokens} tokens sampled)"),
        ]
        for name, value in rows:
            grid.add_row(Text(name, style="dim"), Text(value))
        return grid

    def _rollouts(self) -> Table:
        grid = Table.grid(padding=(0, 2))
        cells = [
            Text(f"{rollout[-12:]} " + "●" * calls, style="yellow")
            for rollout, calls in list(self.progress.running.items())[:12]
        ]
        for i in range(0, len(cells), 4):
            grid.add_row(*cells[i : i + 4])
        return grid

    def _clock(self) -> str:
        seconds = int(time.monotonic() - self._began)
        return f"{seconds // 60}:{seconds % 60:02d}"


def step_line(message: RunStepped) -> str:
    """One training step as a line."""
    m: Callable[[str], float] = lambda key: message.metrics.get(key, float("nan"))  # noqa: E731 - a name shorter than its use
    return (
        f"step {message.step}: reward {m('critic/rewards/mean'):.3f}, {m('groups_completed'):.0f} groups completed, "
        f"log-prob gap {m('logprob_gap/max'):.1e}, {m('timing_s/step'):.1f} s, now serving v{message.version}"
    )
