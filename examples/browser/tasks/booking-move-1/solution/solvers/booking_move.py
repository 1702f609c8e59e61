"""Reads the rooms and the calendar of the day, and moves the booking to the first hour that is free."""

from __future__ import annotations

from typing import Any

from .visitor import Visitor, known, visiting


def rooms(visitor: Visitor, wish: dict[str, Any]) -> list[str]:
    """Rooms that will do, the smallest first."""
    rows = visitor.follow("Rooms").rows[1:]
    if wish["room"]:
        return [wish["room"]]
    fitting = [row for row in rows if int(row[1]) >= wish["seats"] and wish["equipment"] in row[2].split(", ")]
    return [row[0] for row in sorted(fitting, key=lambda row: int(row[1]))]


def booking(visitor: Visitor, title: str, contact: str) -> str:
    """Address of the booking; others have the same title."""
    visitor.follow("Bookings")
    visitor.send("Search", q=title)
    found = ((page.row_links[n], row) for page in visitor.leaves() for n, row in enumerate(page.rows))
    return next(link for link, row in found if row[:2] == [title, contact])


def main() -> None:
    task = known()
    with visiting() as visitor:
        fitting = rooms(visitor, task["wish"])
        visitor.go("/")
        heads, *hours = visitor.follow(task["day"]).rows
        room, hour = next((room, row[0]) for row in hours for room in fitting if row[heads.index(room)] == "free")
        visitor.go(booking(visitor, task["title"], task["contact"]))
        visitor.send("Move booking", room=room, day=task["day"], hour=hour)


if __name__ == "__main__":
    main()
