"""`openforge runs` and `openforge groups`."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from services.collector.archive import FOLDER, archive_files
from services.collector.history import Group
from services.dev.archives import load, open_run, run_folders
from services.dev.fates import group_state
from services.dev.stack import is_running
from shared.events import CallRecorded, GroupCompleted, Message, Purpose

_MB = 1_000_000


class _Summary(msgspec.Struct):
    """What is read of `summary.json`."""

    ok: bool = False
    error: str = ""
    steps: int = 0
    heldout_before: float | None = None
    heldout_after: float | None = None
    groups_completed: int = 0
    groups_discarded: int = 0


class RunLine(msgspec.Struct, kw_only=True):
    """A run in a list: `state` is `running`, `ended`, `failed`, or `stopped` where it left no summary."""

    run_id: str
    state: str
    started: float
    steps: int
    groups_completed: int
    groups_discarded: int
    heldout_before: float | None
    heldout_after: float | None
    archive_mb: float


class GroupLine(msgspec.Struct, kw_only=True):
    """A group in a list: `rewards` are of the rollouts that have a vote, in the order of their ids."""

    group_id: str
    task: str
    purpose: Purpose
    state: str
    size: int
    rollouts: list[str]
    outcomes: dict[str, int]
    rewards: list[float]
    trained: int
    sampled: int


def list_runs(root: Path, *, as_json: bool) -> int:
    """Prints the runs under a folder, the newest first."""
    lines = [_run_line(folder) for folder in run_folders(root)]
    if as_json:
        _print_json(lines)
        return 0
    table = _table("run", "state", "started", "steps", "groups", "held-out", "archive")
    for line in lines:
        started = time.strftime("%m-%d %H:%M", time.localtime(line.started))
        groups = f"{line.groups_completed}+{line.groups_discarded}" if line.groups_completed or line.groups_discarded else "-"
        held = " > ".join(f"{v:.2f}" for v in (line.heldout_before, line.heldout_after) if v is not None) or "-"
        table.add_row(line.run_id, line.state, started, str(line.steps), groups, held, f"{line.archive_mb:.2f} MB")
    Console(highlight=False).print(table)
    return 0


def list_groups(root: Path, run_id: str, *, as_json: bool) -> int:
    """Prints the groups of a run, in the order of their ids; to people, these without the run's.

    Raises:
        ForgeError: there is no such run, or no archive of it.
    """
    run = open_run(root, run_id)
    history, _ = load(run, _not_a_call)
    lines = [_group_line(group) for _, group in sorted(history.groups.items())]
    if as_json:
        _print_json(lines)
        return 0
    table = _table("group", "task", "", "state", "rewards", "trained", "sampled")
    for g in lines:
        rewards = " ".join(f"{r:g}" for r in g.rewards) or "-"
        task = g.task.rpartition("/")[2]
        table.add_row(
            g.group_id.removeprefix(f"{run.run_id}-"), task, g.purpose, g.state, rewards, str(g.trained), str(g.sampled)
        )
    table.title = f"run {run.run_id}"
    Console(highlight=False).print(table)
    return 0


def _run_line(folder: Path) -> RunLine:
    summary, running = _summary(folder), is_running(folder)
    state = "running" if running else "stopped" if summary is None else "ended" if summary.ok else "failed"
    told = summary or _Summary()
    return RunLine(
        run_id=folder.name, state=state, started=(folder / "config.json").stat().st_mtime, steps=told.steps,
        groups_completed=told.groups_completed, groups_discarded=told.groups_discarded,
        heldout_before=told.heldout_before, heldout_after=told.heldout_after,
        archive_mb=sum(f.stat().st_size for f in archive_files(folder / FOLDER)) / _MB,
    )  # fmt: skip


def _summary(folder: Path) -> _Summary | None:
    try:
        return msgspec.json.decode((folder / "summary.json").read_bytes(), type=_Summary)
    except (FileNotFoundError, msgspec.DecodeError):  # it is of use without, and another program's business
        return None


def _group_line(group: Group) -> GroupLine:
    closed = group.closed
    told = group.announced
    votes = closed.trajectories if isinstance(closed, GroupCompleted) else []
    return GroupLine(
        group_id=group.group_id,
        task=closed.task if closed else told.task if told else "",
        purpose=closed.purpose if closed else told.purpose if told else "train",
        state=group_state(group),
        size=group.size,
        rollouts=sorted(group.rollouts),
        outcomes=closed.outcomes if closed else {},
        rewards=[t.reward for t in votes],
        trained=closed.tokens.trained if closed else 0,
        sampled=closed.tokens.sampled if closed else 0,
    )


def _not_a_call(message: Message) -> bool:
    return not isinstance(message, CallRecorded)


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in columns:
        table.add_column(name, overflow="fold", no_wrap=name == columns[0])
    return table


def _print_json(lines: Sequence[Any]) -> None:
    sys.stdout.write(msgspec.json.encode(lines).decode() + "\n")
