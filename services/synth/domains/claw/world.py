"""An office with people and everyday noise, to which a family adds what its task is about."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from services.synth.domains.claw import words

MINUTE = "%Y-%m-%dT%H:%M"
HOME = "lumo.test"
"""Domain of the office's own people."""
MONDAY = datetime(2026, 3, 2, 9, 0)


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody with an address."""

    name: str
    email: str
    phone: str
    company: str = ""

    @property
    def first(self) -> str:
        """First name, which no two people of an office share."""
        return self.name.split()[0]


@dataclass
class World:
    """An office in the making.

    Args:
        rng: everything is drawn from it.
        staff_count: how many people there are besides the one whose office it is.
        client_count: how many people of other companies there are.

    Attributes:
        now: the time of the office.
        inbox: mails that came.
        events: of everybody's calendar.
        me: whose it is.
        staff, clients: the others.
    """

    rng: random.Random
    staff_count: int = 6
    client_count: int = 4
    now: datetime = MONDAY
    inbox: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    chat: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    folders: list[str] = field(default_factory=lambda: ["inbox", "sent", "archive"])

    def __post_init__(self) -> None:
        """Draws the people."""
        rng = self.rng
        self.now = MONDAY + timedelta(weeks=rng.randrange(30), days=rng.randrange(3), minutes=rng.randrange(0, 60, 5))
        count = 1 + self.staff_count + self.client_count
        firsts, lasts = rng.sample(words.FIRST, count), rng.sample(words.LAST, count)
        companies, phones = rng.sample(words.COMPANIES, self.client_count), rng.sample(range(1000, 10000), count)
        people = []
        for n in range(count):
            company = companies[n - count] if n >= count - self.client_count else ""
            domain = f"{company.lower().replace(' ', '-')}.test" if company else HOME
            email = f"{firsts[n]}.{lasts[n]}@{domain}".lower()
            people.append(Person(f"{firsts[n]} {lasts[n]}", email, f"555-{phones[n]}", company))
        self.me, self.staff, self.clients = people[0], people[1 : 1 + self.staff_count], people[1 + self.staff_count :]
        self.numbers = {person.email: f"c{n}" for n, person in enumerate(rng.sample(people[1:], count - 1), 1)}

    def mail(self, sender: Person | str, subject: str, text: str, *, folder: str = "inbox") -> dict[str, Any]:
        """A mail that came; its id and date are there once the office is done."""
        sender = sender if isinstance(sender, str) else sender.email
        mail: dict[str, Any] = {
            "id": "",
            "from": sender,
            "to": [self.me.email],
            "cc": [],
            "subject": subject,
            "text": text,
            "folder": folder,
        }
        self.inbox.append(mail)
        return mail

    def event(self, title: str, day: int, start: float, hours: float, people: list[Person], place: str = "") -> dict[str, Any]:
        """An event so many days from now, from an hour of the day such as 9.5 on."""
        begin = self.at(day, start)
        end = begin + timedelta(hours=hours)
        event: dict[str, Any] = {"id": "", "title": title, "start": begin.strftime(MINUTE), "end": end.strftime(MINUTE)}
        event |= {"attendees": [p.email for p in people], "place": place}
        self.events.append(event)
        return event

    def at(self, day: int, hour: float) -> datetime:
        """A time so many days from now."""
        return self.now.replace(hour=0, minute=0) + timedelta(days=day, hours=hour)

    def day(self, day: int) -> str:
        """The date so many days from now."""
        return self.at(day, 0).strftime("%Y-%m-%d")

    def say(self, channel: str, who: Person, text: str) -> None:
        """A message in a channel, a few minutes after the one before."""
        said = self.chat.setdefault(channel, [])
        last = datetime.strptime(said[-1]["date"], MINUTE) if said else self.now - timedelta(hours=20)
        date = last + timedelta(minutes=self.rng.randrange(1, 9))
        said.append({"from": who.email, "date": date.strftime(MINUTE), "text": text})

    def chatter(self, channel: str, count: int) -> None:
        """Messages that say nothing."""
        for text in self.rng.sample(words.SMALL_TALK, count):
            self.say(channel, self.rng.choice(self.staff), text)

    def noise(self, mails: int = 6) -> None:
        """Everyday mails."""
        for topic in self.rng.sample(words.TOPICS, mails):
            who = self.rng.choice(self.staff)
            self.mail(who, f"About {topic}", f"Hi {self.me.first},\njust a note about {topic}. No need to answer.\n{who.first}")

    def done(self) -> dict[str, Any]:
        """The office as its service begins with it. Mails get their order here, so call it once, and take ids afterwards."""
        self.rng.shuffle(self.inbox)
        date = self.now - timedelta(days=2)
        for n, mail in enumerate(self.inbox, 1):
            date += timedelta(minutes=self.rng.randrange(5, 60))
            mail |= {"id": f"m{n}", "date": date.strftime(MINUTE)}
        self.events.sort(key=lambda e: (e["start"], e["title"]))
        for n, event in enumerate(self.events, 1):
            event["id"] = f"e{n}"
        people = sorted([*self.staff, *self.clients], key=lambda p: int(self.numbers[p.email][1:]))
        contacts = {}
        for person in people:
            number = self.numbers[person.email]
            contacts[number] = {"id": number, "name": person.name, "email": person.email, "phone": person.phone}
            contacts[number] |= {"company": person.company}
        self.chat.setdefault("general", [])
        return {
            "me": self.me.email, "now": self.now.strftime(MINUTE), "folders": self.folders,
            "last": {"mail": len(self.inbox), "events": len(self.events), "contacts": len(contacts)},
            "mail": {m["id"]: m for m in self.inbox}, "events": {e["id"]: e for e in self.events}, "contacts": contacts,
            "chat": self.chat, "files": self.files,
        }  # fmt: skip
