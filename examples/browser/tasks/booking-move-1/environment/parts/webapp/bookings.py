"""Rooms, and who has them when: a calendar for each day, and forms that move or cancel a booking."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import pages
from .exchange import Answer, Asked, Routes
from .shell import Shell


class Site(Shell):
    """Tables: `rooms` (name, seats, equipment), `bookings` (title, contact, room, day, hour, status);
    settings: `days`, `hours`."""

    links: Mapping[str, str] = {"Home": "/", "Rooms": "/rooms", "Bookings": "/bookings"}

    def routes(self) -> Routes:
        return {
            "GET /": self._home, "GET /rooms": self._rooms, "GET /day/*": self._day, "GET /bookings": self._bookings,
            "GET /booking/*": self._booking, "POST /booking/*/move": self._move, "POST /booking/*/cancel": self._cancel,
        }  # fmt: skip

    def _home(self, asked: Asked) -> Answer:
        days = pages.bullets(pages.link(f"/day/{day}", day) for day in self.settings["days"])
        return self.show(self.name, pages.paragraph("Which rooms are taken, by day:"), days)

    def _rooms(self, asked: Asked) -> Answer:
        lines = [(row["name"], str(row["seats"]), ", ".join(row["equipment"]) or "none") for row in self.kept.rows("rooms")]
        return self.show("Rooms", pages.table(("Room", "Seats", "Equipment"), lines))

    def _day(self, asked: Asked, day: str) -> Answer:
        if day not in self.settings["days"]:
            return self.missing()
        rooms = [row["name"] for row in self.kept.rows("rooms")]
        lines = [[hour, *(self._cell(room, day, hour) for room in rooms)] for hour in self.settings["hours"]]
        return self.show(day, pages.table(("Hour", *rooms), lines))

    def _cell(self, room: str, day: str, hour: str) -> str:
        taken = self._taken(room, day, hour)
        return pages.link(f"/booking/{taken['id']}", taken["title"]) if taken else "free"

    def _taken(self, room: str, day: str, hour: str) -> dict[str, Any] | None:
        return next(iter(self.kept.rows("bookings", room=room, day=day, hour=hour, status="booked")), None)

    def _bookings(self, asked: Asked) -> Answer:
        word = asked.query.get("q", "").casefold()
        rows = [row for row in self.kept.rows("bookings") if word in row["title"].casefold()]
        form = pages.form("/bookings", pages.entry("q", "Word in the title", asked.query.get("q", "")), "Search", method="get")
        shown, number, count = pages.cut(rows, asked.query.get("page", ""), 10)
        lines = [[pages.link(f"/booking/{row['id']}", row["title"]), row["contact"], row["status"]] for row in shown]
        pager = pages.pager("/bookings", {"q": asked.query["q"]} if word else {}, number, count)
        return self.show("Bookings", form, pages.table(("Title", "Contact", "Status"), lines), pager)

    def _booking(self, asked: Asked, row_id: str, error: str = "") -> Answer:
        row = self.kept.find("bookings", row_id)
        if row is None:
            return self.missing()
        known = [(name.title(), row[name]) for name in ("contact", "room", "day", "hour", "status")]
        parts = [pages.paragraph(error, "error") if error else "", pages.facts(known)]
        if row["status"] == "booked":
            rooms = [room["name"] for room in self.kept.rows("rooms")]
            fields = (
                pages.choice("room", "Room", rooms, row["room"])
                + pages.choice("day", "Day", self.settings["days"], row["day"])
                + pages.choice("hour", "Hour", self.settings["hours"], row["hour"])
            )
            parts.append(pages.heading("Move") + pages.form(f"/booking/{row_id}/move", fields, "Move booking"))
            parts.append(pages.heading("Cancel") + pages.form(f"/booking/{row_id}/cancel", "", "Cancel booking"))
        return self.show(row["title"], *parts)

    def _move(self, asked: Asked, row_id: str) -> Answer:
        row = self.kept.find("bookings", row_id)
        if row is None:
            return self.missing()
        room, day, hour = (asked.form.get(name, "") for name in ("room", "day", "hour"))
        known = self.kept.rows("rooms", name=room) and day in self.settings["days"] and hour in self.settings["hours"]
        if not known or row["status"] != "booked":
            return self._booking(asked, row_id, "This booking cannot be moved there.")
        taken = self._taken(room, day, hour)
        if taken and taken["id"] != row_id:
            return self._booking(asked, row_id, f"{room} is taken on {day} at {hour} by {taken['title']}.")
        self.kept.change("bookings", row_id, {"room": room, "day": day, "hour": hour})
        return Answer(to=f"/booking/{row_id}")

    def _cancel(self, asked: Asked, row_id: str) -> Answer:
        if self.kept.find("bookings", row_id) is None:
            return self.missing()
        self.kept.change("bookings", row_id, {"status": "cancelled"})
        return Answer(to=f"/booking/{row_id}")
