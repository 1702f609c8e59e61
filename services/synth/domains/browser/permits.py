"""Fill in an application of several pages by what an office knows of a resident."""

from __future__ import annotations

from random import Random
from typing import Any

from services.synth.domains import content
from services.synth.domains.folder import Drawn

SITE = "http://site.test/"
ZONES = ("Zone A", "Zone B", "Zone C")
TERMS = ("3 months", "6 months", "12 months")
VEHICLES = ("Car", "Van", "Motorcycle")
STEPS: list[dict[str, Any]] = [
    {"title": "Applicant", "fields": [
        {"name": "name", "label": "Full name"},
        {"name": "born", "label": "Date of birth", "pattern": r"\d{4}-\d\d-\d\d", "hint": "as year-month-day: 1987-03-09"},
        {"name": "phone", "label": "Telephone", "pattern": r"\d{3} \d{4}", "hint": "seven digits, as 555 0123"},
    ]},
    {"title": "Vehicle", "fields": [
        {"name": "vehicle", "label": "Kind of vehicle", "options": list(VEHICLES)},
        {"name": "plate", "label": "Number plate", "pattern": r"[A-Z]{2}-\d{4}", "hint": "as AB-1234"},
    ]},
    {"title": "Permit", "fields": [
        {"name": "zone", "label": "Zone", "options": list(ZONES)},
        {"name": "term", "label": "Term", "options": list(TERMS)},
    ]},
]  # fmt: skip
FEE: dict[str, Any] = {"name": "fee", "label": "Fee", "pattern": r"\d+\.\d\d", "hint": "as 42.00"}
ROW = dict[str, Any]


def draw(rng: Random, level: int) -> Drawn:
    """Level 2 has several residents of that name, level 3 asks for the fee besides."""
    streets = rng.sample(content.STREETS, 9)
    zones = {street: ZONES[number % len(ZONES)] for number, street in enumerate(streets)}
    residents = _residents(rng, streets, 1 if level == 1 else 3)
    applicant = residents[0]
    fees = {(zone, term): rng.randrange(20, 60) * (1 + TERMS.index(term)) for zone in ZONES for term in TERMS}
    zone, term = zones[applicant["street"]], rng.choice(TERMS)
    wanted = {**applicant["form"], "zone": zone, "term": term, **({"fee": f"{fees[zone, term]}.00"} if level > 2 else {})}
    shown = [{"id": row["id"], "name": row["name"], "street": row["street"], "facts": row["facts"]} for row in residents]
    rng.shuffle(shown)
    known = {"name": applicant["name"], "street": applicant["street"], "term": term, "fee": level > 2}
    return Drawn(
        instruction=f"""
At the office {SITE} file one application for a parking permit of {term} for {applicant["name"]},
who lives in {applicant["street"]}.

What the form asks for is in the file of the resident and in the office's notices.""",
        settings={
            "name": f"Town office of {rng.choice(content.TOWNS)}",
            "about": "Files of residents, notices, and applications for parking permits.",
            "steps": [*STEPS[:2], {**STEPS[2], "fields": [*STEPS[2]["fields"], *([FEE] if level > 2 else [])]}],
            "notices": [_zones(zones), _fees(fees)],
        },
        tables={"residents": shown, "applications": []},
        changes=[{"table": "applications", "id": "applications-1", "set": wanted}],
        known=known, max_turns=25 + 5 * level,
    )  # fmt: skip


def _residents(rng: Random, streets: list[str], same: int) -> list[ROW]:
    """Residents with the applicant first; `same` of them have the applicant's name, and none of those the same street."""
    names = content.people(rng, 16)
    names = [names[0]] * same + names[1:]
    homes = rng.sample(streets, same) + [rng.choice(streets) for _ in names[same:]]
    ids = rng.sample(range(100, 999), len(names))
    return [_resident(rng, f"r{n}", name, street) for n, name, street in zip(ids, names, homes, strict=True)]


def _resident(rng: Random, row_id: str, name: str, street: str) -> ROW:
    year, month, day = rng.randrange(1944, 2004), rng.randrange(1, 13), rng.randrange(1, 29)
    plate = "".join(rng.choices("ABCDEFGHKLMNPRSTUVWXYZ", k=2)) + f"-{rng.randrange(10_000):04}"
    old = "".join(rng.choices("ABCDEFGHKLMNPRSTUVWXYZ", k=2)) + f"-{rng.randrange(10_000):04}"
    form = {
        "name": name, "born": f"{year}-{month:02}-{day:02}", "phone": content.phone(rng),
        "vehicle": rng.choice(VEHICLES), "plate": plate,
    }  # fmt: skip
    facts = {
        "Date of birth": f"{day} {content.MONTHS[month - 1]} {year}", "Telephone": form["phone"],
        "Earlier telephone": content.phone(rng), "Vehicle": f"{form['vehicle']}, {plate}",
        "Vehicle until last year": f"{rng.choice(VEHICLES)}, {old}",
    }  # fmt: skip
    return {"id": row_id, "name": name, "street": street, "facts": facts, "form": form}


def _zones(zones: dict[str, str]) -> dict[str, Any]:
    lines = [f"{zone}: {', '.join(street for street in zones if zones[street] == zone)}." for zone in ZONES]
    return {"title": "Parking zones by street", "lines": lines}


def _fees(fees: dict[tuple[str, str], int]) -> dict[str, Any]:
    return {"title": "Fees of parking permits", "lines": [f"{zone}, {term}: {fee}.00" for (zone, term), fee in fees.items()]}
