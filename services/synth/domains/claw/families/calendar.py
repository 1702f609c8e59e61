"""Families around the calendar."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

from services.synth.domains.claw import words
from services.synth.domains.claw.draft import Draft, Level
from services.synth.domains.claw.families.common import python, wording
from services.synth.domains.claw.world import MINUTE, Person, World

FIRST_HOUR, LAST_HOUR = 9, 17
_MOVE = """
(event,) = [e for e in listed("events", "list") if e["title"] == {title!r}]
busy = [e for who in event["attendees"] for e in listed("events", "list", "--day", {day!r}, "--attendee", who)]
length = {length}
for hour in range(9, 18 - length):
    start, end = f"{day}T{{hour:02d}}:00", f"{day}T{{hour + length:02d}}:00"
    if all(e["end"] <= start or e["start"] >= end or e["id"] == event["id"] for e in busy):
        break
office("events", "update", event["id"], "--start", start, "--end", end)
{tell}
"""
_TELL = """for who in event["attendees"]:
    if who != {me!r}:
        office("mail", "send", "--to", who, "--subject", "Moved: " + event["title"], "--text", "Now " + start[11:])"""


def move(rng: random.Random, level: Level) -> Draft:
    """A meeting is moved to the earliest hour at which all are free."""
    world = World(rng, staff_count=7)
    length = rng.choice((1, 2))
    title = f"{rng.choice(words.PROJECTS)} {rng.choice(words.MEETINGS)}"
    people = [world.me, *world.staff[: {"easy": 1, "medium": 2, "hard": 3}[level]]]
    old, new = 1, rng.randrange(2, 6)
    event = world.event(title, old, rng.randrange(9, 15), length, people, rng.choice(words.PLACES))
    free = rng.randrange(FIRST_HOUR + 1, LAST_HOUR - length)
    _fill(world, people, new, free, length)
    _fill_others(world, world.staff[len(people) - 1 :], new)
    world.noise(4)
    start = _earliest(world, people, new, length)
    office = world.done()
    others = " and ".join(p.first for p in people[1:]) if len(people) < 4 else ", ".join(p.first for p in people[1:])
    extra = (
        " Then send each of the others a mail with the subject `Moved: TITLE` (the meeting's title) "
        "that names the new start as in 09:00."
    )
    day, tell = world.day(new), level != "easy"
    text = wording(
        rng,
        f"Move the meeting `{title}` with {others} to {day}: to the earliest full hour from 09:00 on at which everybody in "
        f"it is free for "
        f"its whole length. It must end by 17:00, and stays as long as it is.{extra if tell else ''}",
        f"`{title}` has to take place on {day} instead. Find the first full hour (09:00 or later, over by 17:00) at which "
        f"you and {others} "
        f"have nothing else, and move it there; it takes as long as before.{extra if tell else ''}",
    )
    checks = [
        f"expect.event_at({event['id']!r}, {start.strftime(MINUTE)!r}, {(start + timedelta(hours=length)).strftime(MINUTE)!r})"
    ]
    if tell:
        hour = start.strftime("%H:%M")
        checks += [f"expect.mail_sent(to={p.email!r}, subject={'Moved: ' + title!r}, contains=[{hour!r}])" for p in people[1:]]
    solve = _MOVE.format(title=title, day=day, length=length, tell=_TELL.format(me=world.me.email) if tell else "")
    return Draft(text, office, python(solve), checks)


def _fill(world: World, people: list[Person], day: int, free: int, length: int) -> None:
    """Meetings of the people, so that not before `free` all of them have time, and then they have."""
    hour = FIRST_HOUR
    while hour < LAST_HOUR:
        taken = world.rng.choice((1, 1, 2))
        if hour < free:
            taken = min(taken, free - hour)
            world.event(_title(world), day, hour, taken, [world.rng.choice(people), world.rng.choice(world.staff[-2:])])
            hour += taken
        else:
            hour = max(hour, free + length)
            if hour < LAST_HOUR and world.rng.random() < 0.5:
                world.event(_title(world), day, hour, 1, [world.rng.choice(people)])
            hour += 1


def _fill_others(world: World, people: list[Person], day: int) -> None:
    for _ in range(4):
        world.event(_title(world), day, world.rng.randrange(9, 16), 1, [world.rng.choice(people)])


def _title(world: World) -> str:
    return f"{world.rng.choice(words.PROJECTS)} {world.rng.choice(words.MEETINGS)}"


def _earliest(world: World, people: list[Person], day: int, length: int) -> Any:
    addresses = {p.email for p in people}
    busy = [e for e in world.events if addresses & set(e["attendees"])]
    for hour in range(FIRST_HOUR, LAST_HOUR - length + 1):
        start = world.at(day, hour)
        begin, end = start.strftime(MINUTE), (start + timedelta(hours=length)).strftime(MINUTE)
        if all(e["end"] <= begin or e["start"] >= end for e in busy):
            return start
    raise AssertionError("there is always a free hour")


_CONFLICT = """
for day in {days!r}:
    mine = listed("events", "list", "--day", day, "--attendee", {me!r})
    for one, other in zip(mine, mine[1:]):
        if other["start"] < one["end"]:
            less = min((one, other), key=lambda e: len(e["attendees"]))
            office("events", "delete", less["id"])
            for who in less["attendees"]:
                if {tell} and who != {me!r}:
                    office("mail", "send", "--to", who, "--subject", "Cancelled: " + less["title"], "--text", "Sorry.")
"""


def conflict(rng: random.Random, level: Level) -> Draft:
    """Of two meetings that overlap the smaller one is cancelled."""
    world = World(rng)
    days = [1, *([rng.randrange(2, 6)] if level == "hard" else [])]
    tell, checks, gone = level != "easy", [], []
    for day in days:
        hour = rng.randrange(10, 15)
        small, large = rng.sample(world.staff, 2), rng.sample(world.staff, rng.randrange(3, 5))
        titles = rng.sample([f"{p} {m}" for p in words.PROJECTS[:8] for m in words.MEETINGS[:6]], 4)
        parts = [(hour, 1.0), (hour + rng.choice((0.25, 0.5)), 1.5)]
        rng.shuffle(parts)
        gone.append((world.event(titles[0], day, *parts[0], [world.me, *small]), small))
        world.event(titles[1], day, *parts[1], [world.me, *large], rng.choice(words.PLACES))
        world.event(titles[2], day, 9, 0.5, [world.me, world.staff[0]])
        world.event(titles[3], day, hour, 2, world.staff[:2])
    world.noise(4)
    office = world.done()
    when = " and on ".join(world.day(day) for day in days)
    extra = (
        " Then write a mail to each of the other people in it, with the subject `Cancelled: TITLE` (its title) "
        "and a word of regret."
    )
    text = wording(
        rng,
        f"On {when} two of my meetings overlap. Cancel the one with fewer people in it: delete it from the calendar."
        f"{extra if tell else ''} Leave everything else as it is. (I am {world.me.email}.)",
        f"My calendar ({world.me.email}) has two meetings at the same time on {when}. Delete the one that fewer people are in."
        f"{extra if tell else ''} No other meeting may change.",
    )
    for event, others in gone:
        checks.append(f"expect.event_deleted({event['id']!r})")
        subject = f"Cancelled: {event['title']}"
        checks += [f"expect.mail_sent(to={p.email!r}, subject={subject!r})" for p in others if tell]
    solve = _CONFLICT.format(days=[world.day(day) for day in days], me=world.me.email, tell=tell)
    return Draft(text, office, python(solve), checks)
