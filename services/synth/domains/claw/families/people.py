"""Families around the contacts."""

from __future__ import annotations

import random

from services.synth.domains.claw import words
from services.synth.domains.claw.draft import Draft, Level
from services.synth.domains.claw.families.common import python, wording
from services.synth.domains.claw.world import World

_UPDATE = """
contacts = {c["email"]: c["id"] for c in listed("contacts", "list")}
found = {}
for mail in sorted(listed("mail", "search", "my new", "--folder", "inbox"), key=lambda m: m["date"]):
    text = office("mail", "read", mail["id"])["text"]
    if phone := re.search(r"my new phone number is (555-\\d+)", text):
        found.setdefault(mail["from"], {})["phone"] = phone[1]
    if company := re.search(r"my new company is ([\\w ]+)\\.", text):
        found.setdefault(mail["from"], {})["company"] = company[1]
for sender, fields in found.items():
    office("contacts", "update", contacts[sender], *[w for n, v in fields.items() for w in ("--" + n, v)])
"""


def update(rng: random.Random, level: Level) -> Draft:
    """People have written what is new about them."""
    world = World(rng, staff_count=5, client_count=6)
    world.noise(rng.randrange(4, 8))
    count = {"easy": 1, "medium": 3, "hard": 4}[level]
    people = rng.sample(world.clients, count)
    phones = iter(f"555-{n}" for n in rng.sample(range(1000, 10000), 12))
    changed: dict[str, dict[str, str]] = {}
    for n, who in enumerate(people):
        phone = next(phones)
        changed[who.email] = {"phone": phone}
        lines = [f"my new phone number is {phone}."]
        if level == "hard" and n % 2:
            company = rng.choice([c for c in words.COMPANIES if c != who.company])
            changed[who.email]["company"] = company
            lines.append(f"Besides, my new company is {company}. The address stays.")
        world.mail(who, rng.choice(("News", "Please note", "A change")), _letter(world, who.first, " ".join(lines)))
    for who in rng.sample([c for c in world.clients if c not in people], 1):
        world.mail(
            who, "Please note", _letter(world, who.first, f"our fax number is {next(phones)} as before. Nothing has changed.")
        )
    office = world.done()
    what = "phone number or company" if level == "hard" else "phone number"
    text = wording(
        rng,
        f"Since {world.day(-2)} some people have written that they have a new {what}, {people[0].first} for one. Bring the "
        f"contacts "
        "of all of them up to date, and change no others.",
        f"Look through the {len(world.inbox)} mails of the inbox for mails in which somebody tells a new {what}, and "
        f"correct the contacts accordingly. "
        f"Nothing else is to change.",
        f"The contacts of {world.me.name} are out of date: mails in the inbox say who has a new {what}. Update those contacts.",
    )
    checks = [
        f"expect.contact_is({world.numbers[email]!r}, {', '.join(f'{name}={value!r}' for name, value in fields.items())})"
        for email, fields in changed.items()
    ]
    return Draft(text, office, python(_UPDATE), checks)


def _letter(world: World, first: str, what: str) -> str:
    return f"Hi {world.me.first},\n{what}\nBest\n{first}"
