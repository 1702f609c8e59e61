"""Tables that a task's program keeps, so that a verifier can read what became of them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

Row = dict[str, Any]
"""One with an `id`, which is a text."""

DATA, STATE, JOURNAL = "data.json", "state.json", "journal.jsonl"


class Kept:
    """Tables as they stand in state.json, or at the beginning in data.json.

    Every change is a line of journal.jsonl and in state.json before the method returns: whoever ends the program at any moment
    finds what it had answered.

    Args:
        folder: where the three files are.
    """

    def __init__(self, folder: Path) -> None:
        data = json.loads((folder / DATA).read_text(encoding="utf-8"))
        self.settings: dict[str, Any] = data["settings"]
        self._state, self._journal = folder / STATE, folder / JOURNAL
        found = json.loads(self._state.read_text(encoding="utf-8")) if self._state.exists() else data
        self.tables: dict[str, list[Row]] = found["tables"]

    def rows(self, table: str, **wanted: Any) -> list[Row]:
        """Rows whose fields have these values, in order."""
        return [row for row in self.tables[table] if all(row.get(name) == value for name, value in wanted.items())]

    def find(self, table: str, row_id: str) -> Row | None:
        """The row of that id."""
        return next(iter(self.rows(table, id=row_id)), None)

    def add(self, table: str, fields: Row) -> str:
        """Adds a row; returns its id."""
        row_id = f"{table}-{len(self.tables[table]) + 1}"
        self.tables[table].append({"id": row_id, **fields})
        self._keep({"table": table, "id": row_id, "set": fields})
        return row_id

    def change(self, table: str, row_id: str, fields: Row) -> None:
        """Changes fields of a row that is there."""
        row = next(row for row in self.tables[table] if row["id"] == row_id)
        changed = {name: value for name, value in fields.items() if row.get(name) != value}
        if changed:
            row.update(changed)
            self._keep({"table": table, "id": row_id, "set": changed})

    def note(self, line: Row) -> None:
        """Writes a line of the journal that changes nothing: a request, a window."""
        with self._journal.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, sort_keys=True) + "\n")

    def _keep(self, line: Row) -> None:
        self.note(line)
        write_whole(self._state, {"tables": self.tables})


def write_whole(path: Path, content: Any) -> None:
    """Writes JSON so that a reader sees the old file or the new one."""
    new = path.with_name(path.name + ".new")
    new.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    os.replace(new, path)
