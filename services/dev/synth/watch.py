"""The progress of synth, live: a picture on a terminal, a line for each task elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Group
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from services.dev.synth.overview import Overview
from services.dev.view import View
from shared.events import Message, TaskAccepted, TaskRejected

_LAST = 6
_REST = 20
"""Times as long as looking takes, nobody looks again."""


class SynthView(View):
    """What the person who has tasks made sees.

    Args:
        run_id: of the run.
        folder: of the run.
        look: tells what has become of the tasks.
        total: tasks that were asked for.
    """

    def __init__(self, run_id: str, folder: str, look: Callable[[], Overview], total: int) -> None:
        super().__init__(run_id, folder)
        self._look, self._total = look, total
        self._found = look()
        self._next = 0.0
        self._lines: list[str] = []
        self._seen: set[str] = set()

    def look(self) -> None:
        """Looks again, unless nobody sees it, or looking takes long."""
        if self._live is None or (began := time.monotonic()) < self._next:
            return
        self._found = self._look()
        self._next = began + _REST * (time.monotonic() - began)

    def on_message(self, message: Message) -> None:
        """Notes the end of a task; without a terminal, says it."""
        self.progress.apply(message)
        if not isinstance(message, TaskAccepted | TaskRejected) or message.event_id in self._seen:
            return
        self._seen.add(message.event_id)
        if isinstance(message, TaskAccepted):
            line = f"{message.task_id} accepted" + (f" after {message.round} changes" if message.round else "")
        else:
            line = f"{message.task_id} turned down by {message.gate}: {message.reason}"
        self._lines = [*self._lines[-_LAST:], line]
        if self._live is None:
            self.note(line)

    def render(self) -> Panel:
        """The live picture."""
        found, over = self._found, Table.grid(padding=(0, 2))
        ended = found.reached.asked - found.under_way - len(found.held)
        over.add_row(
            Text("tasks", style="bold cyan"), ProgressBar(total=self._total, completed=ended, width=30),
            Text(f"{ended} of {self._total} through"),
        )  # fmt: skip
        facts, turned = Table.grid(padding=(0, 3)), sum(len(one.tasks) for one in found.turned_down)
        p, r = self.progress, found.reached
        for name, value in (
            ("stages", f"{r.proposed} proposed  {r.built} built  {r.accepted} accepted  {turned} turned down"),
            ("why", "  ".join(f"{len(one.tasks)} {one.gate}/{one.reason}" for one in found.turned_down[:4]) or "-"),
            ("rollouts", f"{len(p.running)} running  {len(p.waiting)} waiting  {found.rollouts} ended"),
            ("spent", f"${found.usd:.4f} for {found.calls} answers of models"),
        ):
            facts.add_row(Text(name, style="dim"), Text(value))
        lines = [Text(line, style="dim") for line in (*self._lines, *self._notes)]
        where = f"{self._clock()}  {self._folder}  Ctrl-C ends it"
        return Panel(Group(over, Text(), facts, Text(), *lines), title=self._title, subtitle=where, width=100)
