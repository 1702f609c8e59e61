"""`openforge check`: the resolved configuration, and whether a run could start with it."""

from __future__ import annotations

import sys

import msgspec
from rich.console import Console
from rich.table import Table

from services.dev.preflight import check_run
from shared.config import Resolved
from shared.errors import ForgeError


def print_dry_run(resolved: Resolved) -> int:
    """Prints what a learner with this configuration would be like; returns 1 if it could not be."""
    from services.trainer.dryrun import dry_run

    lines = dry_run(resolved.config)
    table = Table("looked at")
    table.add_column("found", overflow="fold")
    for line in lines:
        table.add_row(line.what, line.found, style="red" if line.wrong else None)
    Console().print(table)
    wrong = sum(line.wrong for line in lines)
    sys.stderr.write(
        f"a learner cannot run with this: {wrong} of {len(lines)} lines are wrong\n" if wrong else "nothing is wrong\n"
    )
    return 1 if wrong else 0


def print_check(resolved: Resolved, as_json: bool) -> int:
    """Prints the configuration; returns 1 if a run could not start with it."""
    if as_json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(resolved.config)).decode() + "\n")
    else:
        _print_table(resolved, Console())
    try:
        check_run(resolved.config)
    except ForgeError as e:
        sys.stderr.write(f"a run cannot start: {e}\n")
        return 1
    sys.stderr.write("a run can start with this\n")
    return 0


def _print_table(resolved: Resolved, console: Console) -> None:
    table = Table()
    table.add_column("setting", overflow="fold")
    table.add_column("value", overflow="fold")
    table.add_column("from", overflow="fold")
    for name, value, origin in resolved.items():
        shown = '""' if value == "" else str(value)
        table.add_row(name, shown, origin, style=None if origin != "default" else "dim")
    console.print(table)
