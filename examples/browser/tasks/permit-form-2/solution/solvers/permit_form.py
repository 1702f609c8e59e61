"""Reads the file of the resident who lives in that street and the notices, and fills in the form."""

from __future__ import annotations

import re
from datetime import datetime

from .visitor import Visitor, known, visiting


def resident(visitor: Visitor, name: str, street: str) -> None:
    """Opens the file; others may have the same name."""
    visitor.follow("Residents")
    visitor.send("Search", q=name)
    found = ((page.row_links[n], row) for page in visitor.leaves() for n, row in enumerate(page.rows))
    visitor.go(next(link for link, row in found if row == [name, street]))


def main() -> None:
    task = known()
    with visiting() as visitor:
        resident(visitor, task["name"], task["street"])
        page = visitor.page
        vehicle, plate = page.fact("Vehicle").split(", ")
        born = datetime.strptime(page.fact("Date of birth"), "%d %B %Y").strftime("%Y-%m-%d")
        applicant = {"name": task["name"], "born": born, "phone": page.fact("Telephone")}
        notices = visitor.follow("Notices").text
        zone = next(m[1] for m in re.finditer(r"(Zone \w): ([^.]*)\.", notices) if task["street"] in m[2].split(", "))
        fee = re.search(rf"{zone}, {task['term']}: (\d+\.\d\d)", notices)
        assert fee
        visitor.follow("New application")
        visitor.send("Continue", **applicant)
        visitor.send("Continue", vehicle=vehicle, plate=plate)
        visitor.send("Continue", zone=zone, term=task["term"], **({"fee": fee[1]} if task["fee"] else {}))
        visitor.send("Submit")


if __name__ == "__main__":
    main()
