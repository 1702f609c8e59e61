"""Looks at all runs, says which may go, and removes them where that was asked for."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from services.dev.pruning.choose import Found, Rule, chosen, is_alive
from services.dev.pruning.folders import find, look, remove, remove_rest
from services.dev.scratch import sweep
from shared.errors import ConfigError

_GB, _MB = 1e9, 1e6


class Line(msgspec.Struct, kw_only=True):
    """A run in what is printed; `reason` is why it may go, empty if it stays."""

    run_id: str
    alive: bool
    written: float
    size: int
    reason: str
    removed: bool = False


def prune(root: Path, rule: Rule, *, remove_them: bool, as_json: bool) -> int:
    """Prints the runs, and what may go of them. Returns the exit status: 1 if something could not be removed.

    Raises:
        ConfigError: there is no such folder.
    """
    if not root.is_dir():
        raise ConfigError(f"{root.resolve()}: there is no such folder; name that of the runs with --root")
    console, now = Console(stderr=True, highlight=False), time.time()
    with console.status("looking at the runs") as status:
        found = find(root, lambda run: status.update(f"looking at the run {run}"))
        lines = _lines(found, chosen(found, rule, now), now)
        failed = _remove(root, lines, status.update) if remove_them else ""
    if as_json:
        sys.stdout.write(msgspec.json.encode(lines).decode() + "\n")
    else:
        _print(lines, now, remove_them)
    if failed:
        console.print(f"openforge: {failed}")
    return 1 if failed else 0


def _lines(found: list[Found], reasons: dict[str, str], now: float) -> list[Line]:
    return [
        Line(
            run_id=run.run_id, alive=is_alive(run, now), written=run.written, size=run.size,
            reason=reasons.get(run.run_id, ""),
        )
        for run in found
    ]  # fmt: skip


def _remove(root: Path, lines: list[Line], say: Callable[[str], None]) -> str:
    """Removes what may go, the oldest first; gives what went wrong."""
    try:
        sweep()
        remove_rest(root)
        for line in sorted((line for line in lines if line.reason), key=lambda line: line.written):
            say(f"removing the run {line.run_id}")
            if not is_alive(look(root / line.run_id), time.time()):  # it may have been resumed meanwhile
                remove(root, line.run_id)
                line.removed = True
    except OSError as e:
        return f"{e.filename or root}: it cannot be removed: {e.strerror}; the rest stays"
    return ""


def _print(lines: list[Line], now: float, removed: bool) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("run", "last written", "size", ""):
        table.add_column(name, no_wrap=True)
    for line in lines:
        what = f"removed: {line.reason}" if line.removed else line.reason and f"may go: {line.reason}"
        state = what or ("runs" if line.alive else "stays")
        table.add_row(line.run_id, f"{_ago(now - line.written)} ago", f"{line.size / _MB:,.1f} MB", state)
    console = Console(highlight=False)
    console.print(table)
    goes = sum(line.size for line in lines if (line.removed if removed else line.reason))
    total = sum(line.size for line in lines)
    verb = "freed" if removed else "to be freed"
    console.print(
        f"{goes / _GB:.2f} GB of {total / _GB:.2f} GB {verb}" + ("" if removed or not goes else "; --yes removes them")
    )


def _ago(seconds: float) -> str:
    for unit, length in (("d", 86400.0), ("h", 3600.0), ("m", 60.0)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"
