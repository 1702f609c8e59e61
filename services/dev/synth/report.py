"""What became of a run's tasks: one page of HTML that needs nothing but itself, and the same as JSON."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

import msgspec

from services.dev.synth.look import look
from services.dev.synth.overview import BINS, Overview
from services.dev.synth.pictures import bars
from services.dev.synth.show import facts
from services.synth.books import Books, Known
from services.synth.candidate import Candidate
from shared.config import Config

HTML, JSON = "report.html", "report.json"
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1b1f24 }
h2 { margin-top: 2.2rem; font-size: 1.1rem } table { border-collapse: collapse; font-size: 13px; width: 100% }
td, th { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid #e3e6ea; vertical-align: top }
svg text { font: 12px system-ui, sans-serif; fill: #1b1f24 } .dim { color: #667 } pre { white-space: pre-wrap; margin: 0 }
svg { max-width: 100%; height: auto }
"""
_DETAIL = 800


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate in the report.

    Attributes:
        candidate: where it stands.
        known: what is known of it, once it is accepted.
    """

    candidate: Candidate
    known: Known | None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The report as JSON.

    Attributes:
        at: unix time in seconds at which it was made.
        overview: the counts.
        tasks: all candidates.
    """

    at: float
    overview: Overview
    tasks: list[Task]


def write_report(config: Config, to: Path | None) -> list[Path]:
    """Writes both files and returns their paths.

    Args:
        config: of the run.
        to: folder for them; None takes the run's own.
    """
    books = Books(config)
    folder = to or books.root
    folder.mkdir(parents=True, exist_ok=True)
    tasks = [Task(candidate=task, known=_known(books, task)) for task in books.all()]
    report = Report(at=time.time(), overview=look(config), tasks=tasks)
    (folder / JSON).write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    (folder / HTML).write_text(page(report), encoding="utf-8")
    return [folder / HTML, folder / JSON]


def page(report: Report) -> str:
    """The report as HTML."""
    title = f"Tasks of run {report.overview.run_id}"
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(report.at))
    head = f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
    body = [f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>", f'<p class="dim">{when}</p>']
    return "\n".join([head, *body, *_pictures(report.overview), *_tables(report), "</body></html>\n"])


def _pictures(found: Overview) -> Iterator[str]:
    r = found.reached
    stages = [("asked for", r.asked), ("proposed", r.proposed), ("built", r.built), ("accepted", r.accepted)]
    rows = [(name, float(n), f"{n} ({n / r.asked:.0%})" if r.asked else str(n)) for name, n in stages]
    yield _section("Yield by stage", bars(rows, "#2f855a", "tasks that reached each stage"))
    if found.turned_down:
        rows = [(f"{t.gate}: {t.reason}", float(len(t.tasks)), str(len(t.tasks))) for t in found.turned_down]
        yield _section("Why tasks were turned down", bars(rows, "#c05621", "tasks by gate and reason"))
    if any(found.difficulty):
        rows = [(f"{n / BINS:.0%} - {(n + 1) / BINS:.0%}", float(c), str(c)) for n, c in enumerate(found.difficulty)]
        yield _section(
            "Difficulty", "<p>Tasks by the share of the tester's tries that succeed.</p>" + bars(rows, "#2b6cb0", "tasks")
        )
    if found.gates:
        rows = [(gate, seconds, f"{seconds:.1f} s") for gate, seconds in found.gates.items()]
        yield _section("Time at the gates", bars(rows, "#6b46c1", "seconds by gate"))


def _tables(report: Report) -> Iterator[str]:
    yield _section("In numbers", _table((), [(name, value) for name, value in facts(report.overview)]))
    if report.overview.held:
        yield _section("Waiting", _table(("task", "why"), list(report.overview.held.items())))
    accepted = [
        (t.candidate.name, t.known.proposal.domain, t.known.proposal.family, t.known.split, str(t.known.rounds), _rate(t.known))
        for t in report.tasks if t.known
    ]  # fmt: skip
    if accepted:
        yield _section("Accepted", _table(("task", "domain", "family", "split", "changes", "tester"), accepted))
    turned = [
        (t.candidate.task_id, t.candidate.name, t.candidate.gate, t.candidate.reason, t.candidate.detail[:_DETAIL])
        for t in report.tasks if t.candidate.over and not t.known
    ]  # fmt: skip
    if turned:
        yield _section("Turned down", _table(("", "task", "gate", "reason", "what was said"), turned))


def _section(title: str, body: str) -> str:
    return f"<h2>{escape(title)}</h2>\n{body}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["<table>", "".join(f"<th>{escape(name)}</th>" for name in head)]
    lines += ["<tr>" + "".join(f"<td><pre>{escape(cell)}</pre></td>" for cell in row) + "</tr>" for row in rows]
    return "\n".join([*lines, "</table>"])


def _rate(known: Known) -> str:
    for verdict in known.verdicts:
        if verdict.gate == "difficulty" and "share" in verdict.evidence:
            return f"{verdict.evidence['share']:.0%}"
    return "-"


def _known(books: Books, task: Candidate) -> Known | None:
    return books.known_of(task.name) if task.stage == "accepted" else None
