"""`openforge eval compare A B`."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
from rich.console import Console

from services.dev.evaluation.table import comparison_table
from services.trainer.evaluation.compare import compare
from services.trainer.evaluation.report import FILE, Report
from shared.errors import ConfigError


def compare_files(root: Path, a: str, b: str, *, as_json: bool) -> int:
    """Prints how B differs from A.

    Raises:
        ConfigError: one is no evaluation, or they have nothing in common.
    """
    found = compare(read_report(root, a), read_report(root, b))
    if as_json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
        return 0
    console = Console(highlight=False)
    console.print(comparison_table(found))
    for note in found.notes:
        console.print(f"note: {note}")
    return 0


def read_report(root: Path, name: str) -> Report:
    """The evaluation in a file, in the folder that is named, or in the run of that id.

    Raises:
        ConfigError: there is none.
    """
    places = [Path(name), Path(name, FILE), root / name / FILE]
    file = next((place for place in places if place.is_file()), None)
    if file is None:
        raise ConfigError(f"{name}: no evaluation there: name an {FILE}, its folder, or a run under {root}")
    try:
        return msgspec.json.decode(file.read_bytes(), type=Report)
    except (OSError, msgspec.DecodeError) as e:
        raise ConfigError(f"{file}: not an evaluation: {e}") from None
