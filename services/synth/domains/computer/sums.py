"""Add up what a note says, with a calculator beside it, and enter the sum."""

from __future__ import annotations

from random import Random
from typing import Any

from services.synth.domains import content
from services.synth.domains.computer.drawing import window
from services.synth.domains.folder import Drawn

THINGS = ("Rope", "Paint", "Boards", "Hinges", "Glue", "Lamps", "Tiles", "Screws", "Cloth", "Brushes", "Pipes", "Bolts")
FIELD = {"name": "total", "label": "Total", "pattern": r"\d+\.\d\d", "hint": "with two digits after the point, as 12.50"}
Line = dict[str, Any]


def draw(rng: Random, level: int) -> Drawn:
    """Level 1 adds three amounts; 2 those of one person among others; 3 amounts times a number, over three pages."""
    people = content.people(rng, 1 if level == 1 else 3)
    lines = _lines(rng, people, level)
    who = people[0]
    mine = [line for line in lines if line["who"] == who]
    cents = sum(line["count"] * line["cents"] for line in mine)
    texts = [_text(line, level) for line in lines]
    pages = [texts] if level < 3 else [texts[:4], texts[4:8], texts[8:]]
    times = " An amount is that of one piece; each line says how many pieces it is about." if level > 2 else ""
    whose = f"of {who} in the note" if level > 1 else "in the note"
    return Drawn(
        instruction=f"""
Add up all amounts {whose}, and enter the total into the form on the screen. Save it once.{times}
The calculator may help.""",
        settings={
            "windows": [
                window("note", "Expenses", (20, 20, 500, 420), pages=pages),
                window("form", "Total", (540, 20, 460, 200), fields=[FIELD], table="totals", button="Save"),
                window("calculator", "Calculator", (540, 240, 300, 300)),
            ],
        },
        tables={"totals": []},
        changes=[{"table": "totals", "id": "totals-1", "set": {"total": f"{cents // 100}.{cents % 100:02}"}}],
        known={"who": who if level > 1 else ""}, max_turns=30 + 15 * level,
        solvers=("note_to_form.py",),
    )  # fmt: skip


def _lines(rng: Random, people: list[str], level: int) -> list[Line]:
    """Three or four lines of the first person, among those of the others."""
    mine, others = ((3, 0), (4, 4), (3, 7))[level - 1]
    whose = [people[0]] * mine + [rng.choice(people[1:]) for _ in range(others)]
    rng.shuffle(whose)
    things = rng.sample(THINGS, len(whose))
    return [
        {"who": who, "thing": thing, "count": rng.randrange(2, 7) if level > 2 else 1, "cents": rng.randrange(150, 9_900)}
        for who, thing in zip(whose, things, strict=True)
    ]


def _text(line: Line, level: int) -> str:
    count = f", {line['count']} pieces" if level > 2 else ""
    who = f"{line['who']}: " if level > 1 else ""
    return f"{who}{line['thing']}{count}, {line['cents'] // 100}.{line['cents'] % 100:02}"
