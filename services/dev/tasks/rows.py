"""Rows of JSON, JSON lines and CSV files, with their numbers."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from services.dev.tasks.draft import Draft, Item
from shared.errors import TaskError

csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # trajectories are long


def files_of(source: Path, *endings: str) -> list[Path]:
    """The file itself, or the files of a folder with those endings, in order."""
    if source.is_file():
        return [source] if source.suffix in endings else []
    return sorted(path for path in source.rglob("*") if path.suffix in endings and path.is_file())


def read_text(file: Path) -> str:
    """Content of a file.

    Raises:
        TaskError: it cannot be read as text.
    """
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as e:
        raise TaskError(f"{file.name}: {e}") from None


def items_of(file: Path, draft: Callable[[Any], Draft]) -> Iterator[Item]:
    """An item for every row of a file.

    Args:
        file: `.jsonl`: a row a line; `.csv`: with a header; else JSON: a list of rows.
        draft: makes a draft of a row.
    """
    for number, row in enumerate(_rows(file), 1):
        yield Item(f"{file.name} row {number}", _maker(row, draft))


def first_row(file: Path) -> Any:
    """The first row of a file, to recognise it by; None if there is none that can be read."""
    try:
        row = next(_rows(file), None)
        return row() if row else None
    except TaskError:
        return None


def _maker(row: Callable[[], Any], draft: Callable[[Any], Draft]) -> Callable[[], Draft]:
    return lambda: draft(row())


def _rows(file: Path) -> Iterator[Callable[[], Any]]:
    text = read_text(file)
    if file.suffix == ".jsonl":
        for line in text.splitlines():
            if line.strip():
                yield _json(line)
    elif file.suffix == ".csv":
        for values in csv.DictReader(text.splitlines(keepends=True)):
            yield _value(values)
    else:
        for row in _list(text, file):
            yield _value(row)


def _json(line: str) -> Callable[[], Any]:
    def parse() -> Any:
        try:
            return json.loads(line)
        except ValueError as e:
            raise TaskError(f"not valid JSON: {e}") from None

    return parse


def _value(row: Any) -> Callable[[], Any]:
    return lambda: row


def _list(text: str, file: Path) -> list[Any]:
    rows = _json(text)()
    if not isinstance(rows, list):
        raise TaskError(f"{file.name}: expected a list of rows")
    return rows
