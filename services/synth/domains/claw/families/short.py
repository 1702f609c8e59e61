"""Families whose tasks take two or three short calls: what a very small model can learn, too."""

from __future__ import annotations

import random

from services.synth.domains.claw import words
from services.synth.domains.claw.draft import Draft, Level
from services.synth.domains.claw.families.common import HELP, python
from services.synth.domains.claw.world import World

_CODE = """
(asked,) = listed("mail", "search", {topic!r}, "--folder", "inbox")
(told,) = [said for said in listed("chat", "read", {channel!r}) if said["text"].startswith({topic!r})]
office("mail", "reply", asked["id"], re.search(r"is (\\d+)", told["text"])[1])
"""


def code(rng: random.Random, level: Level) -> Draft:
    """Somebody asks by mail for a code that the chat has."""
    count = {"easy": 2, "medium": 3, "hard": 5}[level]
    world = World(rng, staff_count=3, client_count=1)
    topics, numbers = rng.sample(words.PROJECTS, count), rng.sample(range(100, 1000), count)
    channel = rng.choice(("general", "codes", "doors"))
    for topic, number in rng.sample(list(zip(topics, numbers, strict=True)), count):
        world.say(channel, rng.choice(world.staff), f"{topic} is {number}")
    asker = rng.choice(world.staff)
    mail = world.mail(asker, f"{topics[0]}?", f"Please tell me the code of {topics[0]}.")
    world.noise(count - 1)
    text = f"Reply to the mail about {topics[0]} with its code from the chat channel {channel}.\n\n{HELP}"
    lacks = [str(n) for n in numbers[1:]]
    check = f"expect.mail_sent(to={asker.email!r}, contains=['{numbers[0]}'], lacks={lacks!r}, answers={{id!r}})"
    office = world.done()
    return Draft(
        text, office, python(_CODE.format(topic=topics[0], channel=channel)), [check.format(id=mail["id"])], max_turns=8
    )


_PHONE = """
(asked,) = [m for m in listed("mail", "list", "--folder", "inbox") if m["subject"] == "A phone number"]
name = re.search(r"number of ([\\w ]+)\\.", office("mail", "read", asked["id"])["text"])[1]
(person,) = listed("contacts", "search", name)
office("mail", "reply", asked["id"], person["phone"])
"""


def phone(rng: random.Random, level: Level) -> Draft:
    """Somebody asks by mail for somebody's phone number."""
    world = World(
        rng, staff_count={"easy": 3, "medium": 6, "hard": 10}[level], client_count={"easy": 1, "medium": 3, "hard": 6}[level]
    )
    asker, wanted = rng.sample([*world.staff, *world.clients], 2)
    mail = world.mail(asker, "A phone number", f"Please tell me the phone number of {wanted.name}.")
    world.noise({"easy": 1, "medium": 4, "hard": 8}[level])
    office = world.done()
    text = f"Reply to the mail of {asker.name} with the phone number that it asks for; it is in the contacts.\n\n{HELP}"
    lacks = [p.phone for p in (*world.staff, *world.clients) if p is not wanted][:8]
    check = f"expect.mail_sent(to={asker.email!r}, contains=[{wanted.phone!r}], lacks={lacks!r}, answers={mail['id']!r})"
    return Draft(text, office, python(_PHONE), [check], max_turns=8)
