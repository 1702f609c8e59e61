"""Sort files into folders by their names, dates and sizes."""

from __future__ import annotations

from random import Random
from typing import Any

from services.synth.domains import content
from services.synth.domains.computer.drawing import window
from services.synth.domains.folder import Drawn

FOLDERS = ("Inbox", "Reports", "Pictures", "Archive")
STEMS = ("minutes", "garden", "budget", "harbour", "letter", "survey", "recipe", "journey", "lecture", "roof", "inventory")
ENDS = ("pdf", "txt", "png", "ods")
ROW = dict[str, Any]
Rule = dict[str, str]
"""`end` of the name, or empty; `year` before which, or empty; `folder` to move to."""


def draw(rng: Random, level: int) -> Drawn:
    """Level 1 has one rule over one page of files, 2 one of two conditions over two pages, 3 two of them over three."""
    files = _files(rng, {1: 10, 2: 20, 3: 28}[level])
    rules = _rules(rng, level)
    moves = {row["id"]: to for row in files if (to := folder_of(row, rules))}
    if not 2 <= len(moves) <= 9:
        return draw(rng, level)
    asked = ", and ".join(f"{_words(rule)} to {rule['folder']}" for rule in rules)
    return Drawn(
        instruction=f"""
The window on the screen lists files. Move from the folder Inbox {asked}. Leave all others in Inbox.""",
        settings={
            "windows": [window("files", f"Files of {content.people(rng, 1)[0]}", (40, 40, 640, 560), folders=list(FOLDERS))]
        },
        tables={"files": files},
        changes=[{"table": "files", "id": row_id, "set": {"folder": folder}} for row_id, folder in moves.items()],
        known={"rules": rules}, max_turns=20 + 15 * level,
    )  # fmt: skip


def folder_of(row: ROW, rules: list[Rule]) -> str:
    """Where a file belongs; empty if it stays."""
    fitting = [
        rule["folder"] for rule in rules
        if row["name"].endswith("." + rule["end"]) and (not rule["year"] or row["date"] < rule["year"])
    ]  # fmt: skip
    return fitting[0] if fitting else ""


def _rules(rng: Random, level: int) -> list[Rule]:
    ends, folders = rng.sample(ENDS, 2), rng.sample(FOLDERS[1:], 2)
    years = ["" if level == 1 else str(rng.randrange(2020, 2024)) for _ in ends]
    rules = [{"end": e, "year": y, "folder": f} for e, y, f in zip(ends, years, folders, strict=True)]
    return rules if level == 3 else rules[:1]


def _words(rule: Rule) -> str:
    dated = f" dated before {rule['year']}" if rule["year"] else ""
    return f"all files whose names end with .{rule['end']}{dated}"


def _files(rng: Random, count: int) -> list[ROW]:
    """Files whose names speak of other endings, too."""
    names = rng.sample(
        [f"{stem}-{n}{old}.{end}" for stem in STEMS for n in range(1, 5) for end in ENDS for old in ("", "-pdf")], count
    )
    return [
        {
            "id": f"f{number}", "name": name, "size": f"{rng.randrange(2, 900)} kB", "folder": FOLDERS[0],
            "date": f"{rng.randrange(2018, 2026)}-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}",
        }
        for number, name in enumerate(names, 1)
    ]  # fmt: skip
