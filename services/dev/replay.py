"""`openforge replay`: trajectories, groups and rows made again from a run's archive alone."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from services.collector.archive_reader import Damage
from services.collector.history import History
from services.collector.regroup import Closed, Regrouped, close, regroup
from services.collector.tokens import total
from services.dev.archives import damage_lines, load, open_run
from shared.config import CollectorConfig, resolve
from shared.errors import ConfigError
from shared.events import GroupCompleted, TokenCounts


class Totals(msgspec.Struct, kw_only=True):
    """What training groups give.

    Attributes:
        groups: completed groups.
        discarded: the others, by reason.
        trajectories: rollouts in completed groups.
        rows: their training rows.
        tokens: where the sampled tokens of all groups went.
    """

    groups: int
    discarded: dict[str, int]
    trajectories: int
    rows: int
    tokens: TokenCounts


class Report(msgspec.Struct, kw_only=True):
    """What `--json` prints.

    Attributes:
        same: groups that were made again byte for byte, evaluation included.
        differs: ids of groups that came out otherwise.
        incomplete: for groups that lack messages and came out otherwise, what the archive lacks.
        open: ids of groups that no message closed.
        was: of the run as it was.
        would_be: under other policies; None where none were given.
        damage: what was found in the archive beside messages.
    """

    run_id: str
    rollouts: int
    calls: int
    same: int
    differs: list[str]
    incomplete: dict[str, list[str]]
    open: list[str]
    was: Totals
    would_be: Totals | None
    damage: Damage


def replay(root: Path, run_id: str, sets: Sequence[str], *, as_json: bool) -> int:
    """Prints what is the same and what differs; returns 1 where a closed group could not be made again.

    Args:
        root: folder of the runs.
        run_id: empty takes the newest.
        sets: other policies, `collector.<name>=<value>`.

    Raises:
        ForgeError: there is no such run or archive, or a setting is none of the collector's.
    """
    run = open_run(root, run_id)
    policies = other_policies(run.config.collector, sets) if sets else None
    history, damage = load(run)
    report = examine(run.run_id, history, damage, run.config.collector, policies)
    if as_json:
        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    else:
        _render(report, Console(highlight=False))
    return int(bool(report.differs or report.incomplete))


def other_policies(config: CollectorConfig, sets: Sequence[str]) -> CollectorConfig:
    """The settings of a collector with some of them replaced.

    Raises:
        ConfigError: one is unknown, or of another service.
    """
    resolved = resolve(None, sets, env={})
    changed = {}
    for name in resolved.origins:
        section, _, key = name.partition(".")
        if section != "collector":
            raise ConfigError(f"--set {name}: a replay takes settings of the collector only, like collector.timeout_policy")
        changed[key] = getattr(resolved.config.collector, key)
    return msgspec.structs.replace(config, **changed)


def examine(run_id: str, history: History, damage: Damage, config: CollectorConfig, policies: CollectorConfig | None) -> Report:
    """Makes every group again, and once more under other policies where there are any."""
    groups = {name: regroup(group, config) for name, group in sorted(history.groups.items())}
    others = None if policies is None else [close(history.groups[n], policies, g.by) for n, g in groups.items()]
    verdicts = Counter(g.verdict for g in groups.values())
    return Report(
        run_id=run_id,
        rollouts=len(history.rollouts),
        calls=sum(len(a.calls) for r in history.rollouts.values() for a in r.attempts.values()),
        same=verdicts["same"],
        differs=_named(groups.values(), "differs"),
        incomplete={g.group_id: g.gaps for g in groups.values() if g.verdict == "incomplete"},
        open=_named(groups.values(), "open"),
        was=totals(g.was for g in groups.values()),
        would_be=None if others is None else totals(others),
        damage=damage,
    )


def totals(groups: Iterable[Closed | None]) -> Totals:
    """Sums over training groups; those that are still open give nothing."""
    closed = [g for g in groups if g is not None and g.purpose == "train"]
    completed = [g for g in closed if isinstance(g, GroupCompleted)]
    discarded = Counter(g.reason for g in closed if not isinstance(g, GroupCompleted))
    trajectories = [t for g in completed for t in g.trajectories]
    return Totals(
        groups=len(completed),
        discarded=dict(sorted(discarded.items())),
        trajectories=len(trajectories),
        rows=sum(len(t.rows) for t in trajectories),
        tokens=total(g.tokens for g in closed),
    )


def _named(groups: Iterable[Regrouped], verdict: str) -> list[str]:
    return [g.group_id for g in groups if g.verdict == verdict]


def _render(report: Report, console: Console) -> None:
    console.print(f"run {report.run_id}: {report.rollouts} rollouts, {report.calls} calls", markup=False)
    counts = (report.same, len(report.differs), len(report.incomplete), len(report.open))
    console.print("groups: {} the same byte for byte, {} differ, {} incomplete, {} open".format(*counts))
    for name in report.differs:
        console.print(f"  {name} differs", style="red", markup=False)
    for name, gaps in report.incomplete.items():
        console.print(f"  {name} lacks {'; '.join(gaps)}", style="yellow", markup=False)
    for line in damage_lines(report.damage):
        console.print(f"  {line}", style="yellow", markup=False)
    console.print(_table(report.was, report.would_be))


def _table(was: Totals, would_be: Totals | None) -> Table:
    columns = [was] if would_be is None else [was, would_be]
    table = Table("training", *(["was"] if would_be is None else ["was", "would be"]), box=None, padding=(0, 2, 0, 0))
    for name, read in _FIGURES:
        table.add_row(name, *(str(read(c)) for c in columns))
    _reasons(table, "groups discarded", [c.discarded for c in columns])
    _reasons(table, "tokens", [c.tokens.reasons for c in columns])
    return table


_FIGURES: tuple[tuple[str, Callable[[Totals], int]], ...] = (
    ("groups completed", lambda t: t.groups),
    ("trajectories", lambda t: t.trajectories),
    ("rows", lambda t: t.rows),
    ("tokens sampled", lambda t: t.tokens.sampled),
    ("tokens trained", lambda t: t.tokens.trained),
    ("tokens masked", lambda t: t.tokens.masked),
    ("tokens dropped", lambda t: t.tokens.dropped),
)


def _reasons(table: Table, what: str, counts: Sequence[dict[str, int]]) -> None:
    for reason in sorted({r for c in counts for r in c}):
        table.add_row(f"{what}: {reason}", *(str(c.get(reason, 0)) for c in counts))
