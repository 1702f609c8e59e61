"""The result as JSON and as a page of the documentation."""

from __future__ import annotations

import json
from pathlib import Path

from services.orchestrator.harnesses.adapter import Npm, Pip, load
from services.orchestrator.harnesses.library import adapter_file
from tests.conformance.programs import Program
from tests.conformance.scenes import SCENES

PASS = "pass"
EXCUSED = "excused: "
PAGE = Path(__file__).parents[2] / "docs" / "harnesses.md"

OWN = "\n[A harness of your own](own-harness.md) is a few lines of TOML.\n"

Table = dict[str, dict[str, str]]
"""harness -> scene -> `pass`, or `excused: ` and why, or what is wrong."""


def good(cell: str) -> bool:
    """Whether a cell is as it should be."""
    return cell == PASS or cell.startswith(EXCUSED)


def as_json(table: Table) -> str:
    """One line."""
    return json.dumps(table, ensure_ascii=False)


def write_page(table: Table, programs: dict[str, Program], mode: str, page: Path = PAGE) -> None:
    """Writes the page."""
    lines = [
        "# Harnesses",
        "",
        f"Written by `make conformance` in the mode `{mode}`: each program, unmodified, in a sandbox, through the gateway,",
        "against an engine that follows a script. A cell passes when the task was done, every call is recorded once and equals",
        "the engine's own log token for token, every sampled token is accounted for, the rollout has as many rows as expected",
        "and its calls have the right roles.",
        "",
        f"| harness | version | API | {' | '.join(SCENES)} |",
        f"|{' --- |' * (len(SCENES) + 3)}",
    ]
    notes: list[str] = []
    for name, cells in table.items():
        adapter = load(adapter_file(name))
        version = adapter.install.version if isinstance(adapter.install, Npm | Pip) else ""
        shown = [_cell(name, scene, cells.get(scene, ""), programs[name], notes) for scene in SCENES]
        lines.append(f"| {name} | {version} | {adapter.api} | {' | '.join(shown)} |")
    lines += ["", *(f"- **{scene}**: {what.about}." for scene, what in SCENES.items()), ""]
    lines += [f"{number}. {note}" for number, note in enumerate(notes, 1)]
    page.write_text("\n".join(lines) + "\n" + OWN, encoding="utf-8")


def _cell(name: str, scene: str, cell: str, program: Program, notes: list[str]) -> str:
    if cell == PASS and scene not in program.ends:
        return "pass"
    if cell == PASS:
        notes.append(f"{name}, {scene}: {program.ends[scene]}; everything that happened is recorded.")
        return f"pass ({len(notes)})"
    if cell.startswith(EXCUSED):
        notes.append(f"{name}, {scene}: {cell.removeprefix(EXCUSED)}.")
        return f"n/a ({len(notes)})"
    if cell:
        notes.append(f"{name}, {scene}: {cell}.")
        return f"FAIL ({len(notes)})"
    return "not run"
