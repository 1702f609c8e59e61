"""Move a booking to the first hour that is free in a room that will do."""

from __future__ import annotations

from random import Random
from typing import Any

from services.synth.domains import content
from services.synth.domains.folder import Drawn

SITE = "http://site.test/"
HOURS = ("09:00", "10:00", "11:00", "12:00", "14:00", "15:00", "16:00", "17:00")
EQUIPMENT = ("piano", "projector", "kitchen", "stage")
TITLES = (
    "Choir practice", "Chess club", "Book circle", "Dance class", "Language course", "Board meeting", "First aid course",
    "Drawing class", "Repair evening", "Parents' meeting", "Yoga", "Theatre group",
)  # fmt: skip
ROW = dict[str, Any]


def draw(rng: Random, level: int) -> Drawn:
    """Level 1 names the room; 2 says what it must have, 3 lets several rooms do, of which the smallest is wanted."""
    rooms = _rooms(rng, 4 if level < 3 else 6)
    bookings = _bookings(rng, rooms, 0.55 if level < 3 else 0.7)
    target = rng.choice([row for row in bookings if row["status"] == "booked"])
    wish = _wish(rng, level, rooms)
    days = [day for day in content.DAYS if day != target["day"] and _first(rooms, bookings, wish, day)]
    day = rng.choice(days) if days else ""
    slot = _first(rooms, bookings, wish, day)
    if slot is None:
        return draw(rng, level)
    room, hour = slot
    return Drawn(
        instruction=f"""
At {SITE} rooms are booked by the hour. Move the booking "{target["title"]}" of {target["contact"]} to {day}: to the
earliest hour of that day at which {_place(wish)} is free.{_tie(level)}

Change no other booking.""",
        settings={"name": f"{rng.choice(content.BIRDS)} House", "days": list(content.DAYS), "hours": list(HOURS)},
        tables={"rooms": rooms, "bookings": bookings},
        changes=[{"table": "bookings", "id": target["id"], "set": {"room": room, "day": day, "hour": hour}}],
        known={"title": target["title"], "contact": target["contact"], "day": day, "wish": wish}, max_turns=20 + 4 * level,
    )  # fmt: skip


def will_do(room: ROW, wish: ROW) -> bool:
    """Whether a room is such as was asked for."""
    if wish["room"]:
        return bool(room["name"] == wish["room"])
    return room["seats"] >= wish["seats"] and wish["equipment"] in room["equipment"]


def _first(rooms: list[ROW], bookings: list[ROW], wish: ROW, day: str) -> tuple[str, str] | None:
    """The room and hour, if there is one on that day."""
    taken = {(row["room"], row["day"], row["hour"]) for row in bookings if row["status"] == "booked"}
    fitting = sorted((room for room in rooms if will_do(room, wish)), key=lambda room: room["seats"])
    return next(((room["name"], hour) for hour in HOURS for room in fitting if (room["name"], day, hour) not in taken), None)


def _wish(rng: Random, level: int, rooms: list[ROW]) -> ROW:
    if level == 1:
        return {"room": rng.choice(rooms)["name"], "seats": 0, "equipment": ""}
    wishes = [{"room": "", "seats": room["seats"] - 3, "equipment": thing} for room in rooms for thing in room["equipment"]]
    several = [wish for wish in wishes if sum(will_do(room, wish) for room in rooms) > 1]
    single = [wish for wish in wishes if wish not in several]
    return rng.choice((several or wishes) if level > 2 else (single or wishes))


def _place(wish: ROW) -> str:
    return f"the {wish['room']}" if wish["room"] else f"a room with at least {wish['seats']} seats and a {wish['equipment']}"


def _tie(level: int) -> str:
    return " If several such rooms are free then, take the one with the fewest seats." if level > 1 else ""


def _rooms(rng: Random, count: int) -> list[ROW]:
    """Rooms of which no two have the same number of seats."""
    names = [f"{bird} Room" for bird in rng.sample(content.BIRDS, count)]
    seats = rng.sample(range(8, 80, 4), count)
    return [
        {"id": f"room{n}", "name": name, "seats": many, "equipment": sorted(rng.sample(EQUIPMENT, rng.randrange(1, 4)))}
        for n, (name, many) in enumerate(zip(names, seats, strict=True), 1)
    ]


def _bookings(rng: Random, rooms: list[ROW], share: float) -> list[ROW]:
    """Bookings of that share of all hours, one in eight of them cancelled; titles come again, each with another contact."""
    slots = [(room["name"], day, hour) for day in content.DAYS for hour in HOURS for room in rooms]
    taken = rng.sample(slots, int(len(slots) * share))
    contacts = content.people(rng, 14)
    pairs = rng.sample([(title, contact) for title in TITLES for contact in contacts], len(taken))
    return [
        {
            "id": f"b{n}", "title": title, "contact": contact, "room": room, "day": day, "hour": hour,
            "status": "cancelled" if rng.randrange(8) == 0 else "booked",
        }
        for n, ((title, contact), (room, day, hour)) in enumerate(zip(pairs, taken, strict=True), 1)
    ]  # fmt: skip
