"""Look figures up in a table of many pages, and report one number."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from services.synth.domains import content
from services.synth.domains.folder import Drawn

SITE = "http://site.test/"
STATUSES = ("open", "overdue", "paid")
REGIONS = ("North", "South", "East", "West")
ROW = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ask:
    """What is counted: invoices of a status, of one customer or of the customers of a region."""

    figure: str
    status: str
    customer: str = ""
    region: str = ""


FIGURES = {
    "total": "the total amount of the",
    "count": "how many there are of the",
    "largest": "the largest single amount among the",
}


def draw(rng: Random, level: int) -> Drawn:
    """Level 1 has filters for all that is asked, 2 for the status alone, 3 asks for a region, which is not in the table."""
    customers = _customers(rng)
    invoices = _invoices(rng, customers)
    ask = _ask(rng, level, customers, invoices)
    user, password = "clerk", f"{rng.choice(content.BIRDS).lower()}-{rng.randrange(100, 999)}"
    whose = f"of the customer {ask.customer}" if ask.customer else f"of all customers in the region {ask.region}"
    return Drawn(
        instruction=f"""
Sign in at {SITE} as {user} with the password {password}. Find out {FIGURES[ask.figure]} invoices {whose}
that have the status {ask.status}.

File that number as a report there. A report is final, so file one only.""",
        settings={
            "name": f"{rng.choice(content.TOWNS)} Ledger", "user": user, "password": password,
            "filters": ["customer", "status"] if level == 1 else ["status"],
        },
        tables={"customers": customers, "invoices": invoices, "reports": []},
        changes=[{"table": "reports", "id": "reports-1", "set": {"value": answer(ask, customers, invoices)}}],
        known={
            "user": user, "password": password, "figure": ask.figure, "status": ask.status, "customer": ask.customer,
            "region": ask.region,
        },
        max_turns=15 + 10 * level,
    )  # fmt: skip


def answer(ask: Ask, customers: list[ROW], invoices: list[ROW]) -> str:
    """The number to report."""
    cents = [row["cents"] for row in meant(ask, customers, invoices)]
    if ask.figure == "count":
        return str(len(cents))
    amount = sum(cents) if ask.figure == "total" else max(cents)
    return f"{amount // 100}.{amount % 100:02}"


def meant(ask: Ask, customers: list[ROW], invoices: list[ROW]) -> list[ROW]:
    """The invoices that it is about."""
    names = {row["name"] for row in customers if ask.customer == row["name"] or ask.region == row["region"]}
    return [row for row in invoices if row["customer"] in names and row["status"] == ask.status]


def _ask(rng: Random, level: int, customers: list[ROW], invoices: list[ROW]) -> Ask:
    """Something that three invoices or more are about."""
    while True:
        figure, status = rng.choice(list(FIGURES)), rng.choice(STATUSES)
        whose = {"region": rng.choice(REGIONS)} if level > 2 else {"customer": rng.choice(customers)["name"]}
        ask = Ask(figure, status, **whose)
        if len(meant(ask, customers, invoices)) >= 3:
            return ask


def _customers(rng: Random) -> list[ROW]:
    """Customers in pairs of nearly the same name."""
    kinds = ("Foods", "Tools", "Print", "Transport")
    pairs = zip(rng.sample(content.BIRDS, 4), kinds, strict=True)
    names = [f"{bird} {kind}{end}" for bird, kind in pairs for end in ("", " and Sons")]
    contacts = content.people(rng, len(names))
    rows = [
        {"id": f"c{n}", "name": name, "region": rng.choice(REGIONS), "contact": contact}
        for n, (name, contact) in enumerate(zip(names, contacts, strict=True), 1)
    ]
    rng.shuffle(rows)
    return rows


def _invoices(rng: Random, customers: list[ROW]) -> list[ROW]:
    numbers = rng.sample(range(1000, 9999), rng.randrange(56, 80))
    return [
        {
            "id": f"i{number}", "number": str(number), "customer": rng.choice(customers)["name"],
            "status": rng.choice(STATUSES), "due": f"2024-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}",
            "cents": rng.randrange(1_500, 240_000),
        }
        for number in numbers
    ]  # fmt: skip
