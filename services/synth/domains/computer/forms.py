"""Fill in a form from a note."""

from __future__ import annotations

from random import Random
from typing import Any

from services.synth.domains import content
from services.synth.domains.computer.drawing import window
from services.synth.domains.folder import Drawn

ROOMS = ("Single", "Double", "Family")
MEALS = ("None", "Breakfast", "Half board")
FIELDS: list[dict[str, Any]] = [
    {"name": "name", "label": "Name"},
    {"name": "phone", "label": "Telephone", "pattern": r"\d{3} \d{4}", "hint": "seven digits, as 555 0123"},
    {"name": "arrival", "label": "Arrival", "pattern": r"\d{4}-\d\d-\d\d", "hint": "as year-month-day: 2025-03-09"},
    {"name": "nights", "label": "Nights", "pattern": r"[1-9]\d?", "hint": "a number"},
    {"name": "room", "label": "Room", "options": list(ROOMS)},
    {"name": "meals", "label": "Meals", "options": list(MEALS)},
]


def draw(rng: Random, level: int) -> Drawn:
    """Level 1 has one guest in the note, 2 three guests, 3 three on pages of their own, and corrections on the last page."""
    guests = [_guest(rng, name) for name in content.people(rng, 1 if level == 1 else 3)]
    guest = rng.choice(guests)
    pages = [_lines(guest) for guest in guests]
    wanted = dict(guest)
    if level == 2:
        pages = [[line for page in pages for line in (*page, "")]]
    if level == 3:
        corrections = [_correction(rng, other) for other in guests]
        wanted |= corrections[guests.index(guest)]
        pages.append(["Corrections, received today:", *(_corrected(g, c) for g, c in zip(guests, corrections, strict=True))])
    date = "The date of arrival is entered as year-month-day."
    corrected = " What the last page of the note corrects holds." if level == 3 else ""
    return Drawn(
        instruction=f"""
Enter the booking of {guest["name"]}, which is in the note on the screen, into the form beside it, and save it once.
{date}{corrected}""",
        settings={
            "windows": [
                window("note", "Note", (20, 20, 440, 560), pages=pages),
                window("form", "New booking", (480, 20, 520, 380), fields=FIELDS, table="guests", button="Save"),
            ],
        },
        tables={"guests": []},
        changes=[{"table": "guests", "id": "guests-1", "set": wanted}],
        known={"name": guest["name"]}, max_turns=25 + 5 * level,
    )  # fmt: skip


def _guest(rng: Random, name: str) -> dict[str, str]:
    return {
        "name": name, "phone": content.phone(rng), "arrival": f"2025-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}",
        "nights": str(rng.randrange(2, 15)), "room": rng.choice(ROOMS), "meals": rng.choice(MEALS),
    }  # fmt: skip


def _lines(guest: dict[str, str]) -> list[str]:
    year, month, day = guest["arrival"].split("-")
    return [
        f"Guest: {guest['name']}", f"Telephone {guest['phone']}",
        f"Arrives on {int(day)} {content.MONTHS[int(month) - 1]} {year}, {guest['nights']} nights",
        f"Room: {guest['room']}; meals: {guest['meals']}",
    ]  # fmt: skip


def _correction(rng: Random, guest: dict[str, str]) -> dict[str, str]:
    """Another value of one field."""
    name, values = rng.choice((("room", ROOMS), ("meals", MEALS), ("nights", [str(n) for n in range(2, 15)])))
    return {name: rng.choice([value for value in values if value != guest[name]])}


def _corrected(guest: dict[str, str], correction: dict[str, str]) -> str:
    ((name, value),) = correction.items()
    words = {"room": f"Room: {value}", "meals": f"meals: {value}", "nights": f"{value} nights"}
    return f"{guest['name']}: {words[name]}"
