"""What became of candidates, on a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from services.dev.synth.overview import BINS, Overview
from services.synth.books import TASK, Books
from services.synth.candidate import Candidate
from services.synth.model import Verdict

_BAR = 24
_MARKS = {"passed": "green", "failed": "red", "skipped": "dim"}
_DETAIL = 3000


def render(found: Overview, folder: str) -> Group:
    """A run of synth."""
    parts: list[RenderableType] = [Text(f"run {found.run_id}", style="bold"), _yield(found)]
    if found.turned_down:
        parts += [Text("turned down", style="bold"), _turned_down(found)]
    if any(found.difficulty):
        parts += [Text("difficulty: tasks by the share of tries that succeed", style="bold"), _difficulty(found)]
    parts.append(_facts(found))
    for why in sorted(set(found.held.values())):
        tasks = [name for name, reason in found.held.items() if reason == why]
        parts.append(
            Text(f"{len(tasks)} wait ({', '.join(tasks[:5])}{'...' if len(tasks) > 5 else ''}): {why}", style="yellow")
        )
    parts.append(Text(f"accepted tasks: {folder}"))
    return Group(*parts)


def _yield(found: Overview) -> Table:
    r, table = found.reached, _columns("stage", "tasks", "of those asked for", "")
    for name, count in (("asked for", r.asked), ("proposed", r.proposed), ("built", r.built), ("accepted", r.accepted)):
        share = count / r.asked if r.asked else 0.0
        table.add_row(name, str(count), f"{share:.0%}", Text("█" * round(share * _BAR), style="green"))
    return table


def _turned_down(found: Overview) -> Table:
    table = _columns("tasks", "gate", "reason", "which")
    for turned in found.turned_down:
        which = ", ".join(turned.tasks[:4]) + (" ..." if len(turned.tasks) > 4 else "")
        table.add_row(str(len(turned.tasks)), turned.gate or "-", turned.reason or "-", which)
    return table


def _difficulty(found: Overview) -> Table:
    table = _columns("succeed", "tasks", "")
    for number, count in enumerate(found.difficulty):
        bar = "█" * round(_BAR * count / max(found.difficulty))
        table.add_row(f"{number / BINS:.0%} - {(number + 1) / BINS:.0%}", str(count), Text(bar, style="cyan"))
    return table


def _facts(found: Overview) -> Table:
    grid = Table.grid(padding=(0, 2))
    for name, value in facts(found):
        grid.add_row(Text(name, style="dim"), value)
    return grid


def facts(found: Overview) -> Iterator[tuple[str, str]]:
    """What else there is to say, in words."""
    yield "domains", "  ".join(f"{count} {domain}" for domain, count in sorted(found.domains.items())) or "-"
    yield "refined", f"{found.refined} accepted after a change, {found.quarantined} in quarantine"
    yield "under way", f"{found.under_way}, and {len(found.held)} that wait"
    yield "rollouts", f"{found.rollouts} ended of {found.rollouts_asked} asked for"
    yield "null passes", _share(found.null_passes)
    yield "flaky", _share(found.flaky)
    yield "models", f"${found.usd:.4f} for {found.calls} answers"
    minutes, usd = found.minutes_per_accepted, found.usd_per_accepted
    yield "an accepted task", f"{minutes:.2f} min, ${usd:.4f}" if minutes is not None and usd is not None else "-"


def render_task(books: Books, task: Candidate) -> Group:
    """One candidate with its history."""
    grid = Table.grid(padding=(0, 2))
    for name, value in _about(books, task):
        grid.add_row(Text(name, style="dim"), Text(value))
    parts: list[RenderableType] = [Text(f"{task.task_id}  {task.name}", style="bold"), grid]
    for number in range(task.round + 1):
        if verdicts := books.verdicts(task, number):
            parts += [Text(), Text(f"round {number}: {books.round(task, number) / TASK}", style="bold"), _verdicts(verdicts)]
            parts += [Text(v.detail[:_DETAIL]) for v in verdicts if v.outcome == "failed" and v.detail]
    return Group(*parts)


def _about(books: Books, task: Candidate) -> Iterator[tuple[str, str]]:
    yield "stands at", task.stage + (f", and waits: {task.held}" if task.held else "")
    if task.over and task.stage != "accepted":
        yield "because", f"{task.gate}: {task.reason}" + (f": {task.detail[:300]}" if task.detail else "")
    if task.proposal:
        lineage = books.lineage(task)
        yield "domain, family", f"{task.proposal.domain}, {task.proposal.family}"
        yield "made by", f"{lineage.generator}" + (f" of seed {lineage.seed}" if lineage.seed else "") + f" {lineage.source}"
        yield "models", ", ".join(f"{role} {model}" for role, model in lineage.models.items()) or "-"
        yield "prompts", ", ".join(f"{name} {digest[:12]}" for name, digest in lineage.prompts.items()) or "-"
        yield "answers", ", ".join(key[:12] for key in lineage.calls) or "-"
        if lineage.sessions:
            yield "built in", ", ".join(lineage.sessions)
        yield "asks for", task.proposal.brief[:600]
    if task.digest:
        yield "digest", task.digest
    if task.stage == "accepted":
        known = books.known_of(task.name)
        yield "split", known.split if known else "-"
        yield "folder", str(books.accepted / task.name)


def _verdicts(verdicts: list[Verdict]) -> Table:
    table = _columns("gate", "outcome", "reason", "seconds", "what was seen")
    for verdict in verdicts:
        plain = "  ".join(f"{key}={value}" for key, value in verdict.evidence.items() if not isinstance(value, list | dict))
        seen = plain or verdict.detail if verdict.outcome != "skipped" else verdict.detail
        mark = Text(verdict.outcome, style=_MARKS[verdict.outcome])
        table.add_row(verdict.gate, mark, verdict.reason, f"{verdict.seconds:.2f}", Text(seen[:160]))
    return table


def _columns(*names: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in names:
        table.add_column(name)
    return table


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%} of the tasks that were tried"
