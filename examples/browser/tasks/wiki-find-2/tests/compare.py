"""The verifier of tasks whose program keeps tables: prints the reward, and to stderr what it is made of.

    python3 -I compare.py FOLDER

It is copied into tests/ beside expected.json: `start`, the tables at the beginning; `changes`, those that are wanted; `fold`,
whether capitals count for nothing. FOLDER has state.json and journal.jsonl, as the program left them. The reward is the share
of facts that are both wanted and there, among those that are either: 1 if exactly what is wanted was changed, 0 if nothing.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

Tables = dict[str, dict[str, dict[str, Any]]]
Fact = tuple[str, str, str, str]
"""Table, id, field, value as JSON."""
MAX_BYTES = 10_000_000


class Unusable(Exception):
    """What was left cannot be believed; the text says why."""


def by_id(tables: Any) -> Tables:
    """Rows of tables by their id.

    Raises:
        Unusable: they are no tables.
    """
    try:
        return {name: {row["id"]: {k: v for k, v in row.items() if k != "id"} for row in rows} for name, rows in tables.items()}
    except (AttributeError, KeyError, TypeError):
        raise Unusable("there are no tables in the state") from None


def applied(start: Tables, changes: list[Any]) -> Tables:
    """What becomes of tables by changes: each has `table`, `id` and `set`, fields with their new values.

    Raises:
        Unusable: it is no list of changes.
    """
    tables = {name: {row_id: dict(row) for row_id, row in rows.items()} for name, rows in start.items()}
    try:
        for change in changes:
            tables.setdefault(change["table"], {}).setdefault(change["id"], {}).update(change["set"])
    except (KeyError, TypeError, ValueError):
        raise Unusable("the journal has lines that are no changes") from None
    return tables


def facts(start: Tables, end: Tables, fold: bool) -> set[Fact]:
    """What is new or other in `end`."""
    found = set()
    for table in end:
        for row_id, row in end[table].items():
            old = start.get(table, {}).get(row_id, {})
            changed = [name for name in row if name not in old or row[name] != old[name]]
            found |= {(table, row_id, name, plain(row[name], fold)) for name in changed}
    return found


def plain(value: Any, fold: bool) -> str:
    """A value as JSON; blanks at the ends of a text count for nothing, and with `fold` neither do capitals."""
    if isinstance(value, str):
        value = " ".join(value.split()).casefold() if fold else value.strip()
    return json.dumps(value, sort_keys=True)


def left(folder: Path, start: Tables) -> Tables:
    """The tables as the program left them; those of the beginning if it never changed any.

    Raises:
        Unusable: state and journal cannot be read, or do not say the same.
    """
    state, journal = folder / "state.json", folder / "journal.jsonl"
    whole = read(journal).split("\n")[:-1] if journal.exists() else []
    lines = [json.loads(line) for line in whole]
    changes = [line for line in lines if isinstance(line, dict) and "set" in line]
    by_state = by_id(json.loads(read(state)).get("tables")) if state.exists() else start
    by_journal = applied(start, changes)
    # The journal is written first: a program that was ended between the two has said one change more there.
    if by_state not in (by_journal, applied(start, changes[:-1])):
        raise Unusable("state.json and journal.jsonl do not say the same")
    return by_journal


def read(path: Path) -> str:
    """A file's text."""
    if path.is_symlink() or path.stat().st_size > MAX_BYTES:
        raise Unusable(f"{path.name} is a link, or too large")
    return path.read_text(encoding="utf-8")


def reward(folder: Path, expected: dict[str, Any]) -> float:
    """The reward of what was left in a folder; says on stderr what it is made of."""
    start, fold = by_id(expected["start"]), expected["fold"]
    wanted = facts(start, applied(start, expected["changes"]), fold)
    try:
        there = facts(start, left(folder, start), fold)
    except (Unusable, OSError, ValueError, AttributeError) as e:
        sys.stderr.write(f"unusable: {e}\n")
        return 0.0
    for words, some in (("missing", wanted - there), ("not wanted", there - wanted), ("as wanted", wanted & there)):
        for fact in sorted(some):
            sys.stderr.write(f"{words}: {' '.join(fact)}\n")
    return len(wanted & there) / len(wanted | there)


if __name__ == "__main__":
    wanted = json.loads(Path(__file__).with_name("expected.json").read_text(encoding="utf-8"))
    sys.stdout.write(f"{reward(Path(sys.argv[1]), wanted):.4g}\n")
