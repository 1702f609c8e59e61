"""Hide the posts of a forum that break a rule, and leave the others."""

from __future__ import annotations

from random import Random
from typing import Any

from services.synth.domains import content
from services.synth.domains.folder import Drawn

SITE = "http://site.test/"
ROW = dict[str, Any]
TOPICS = ("Garden pests", "Old bicycles", "Bread without yeast", "Walks by the river", "Mending clothes", "Film evenings")
GOOD = (
    "I tried this for {n} weeks and would do it again.", "Has anyone a better way? Mine took {n} hours.",
    "My neighbour wrote a page on it, the {n}th in her notebook.", "In 19{n} people did this without any tools.",
    "I counted {n} of them this morning.", "That is what I thought, too, until I read the leaflet again.",
    "Mine is not for sale, before anybody asks again; I have had it since 19{n}.",
    "Please do not telephone me about it, write here instead.", "The book says 555 grams, which cannot be right.",
)  # fmt: skip
BAD = {
    "phone": (
        "Call me on {phone} and I will tell you more.", "My number is {phone}, after six.", "Better ask my brother: {phone}.",
    ),
    "sale": (
        "I have a spare one for sale at {n} crowns.", "Selling three of them, {n} crowns each, first come first served.",
        "Buy mine: as good as new, for {n} crowns.",
    ),
}  # fmt: skip
RULES = {
    "phone": "No telephone numbers in posts.",
    "sale": "Nothing is offered for sale here.",
    "suspended": "Members who are suspended do not post; what they have posted is hidden.",
}
OTHER_RULES = ("Be kind to newcomers.", "Keep to the topic of the thread.", "Write in whole sentences.")


def draw(rng: Random, level: int) -> Drawn:
    """Level 1 says the rule, for one thread; 2 names its number in the house rules; 3 asks for all threads, and to lock one."""
    rule = rng.choice(list(RULES)) if level > 1 else rng.choice(list(BAD))
    members = _members(rng)
    threads = [{"id": f"t{n}", "title": title, "locked": False} for n, title in enumerate(rng.sample(TOPICS, 4), 1)]
    posts = _posts(rng, threads, members)
    rules = [*RULES.values(), *OTHER_RULES]
    rng.shuffle(rules)
    thread, user, password = rng.choice(threads), "moderator", f"{rng.choice(content.BIRDS).lower()}-{rng.randrange(100, 999)}"
    standing = {row["name"]: row["standing"] for row in members}
    wrong = [row for row in posts if breaks(row, rule, standing) and (level > 2 or row["thread"] == thread["id"])]
    if not 2 <= len(wrong) <= 12:
        return draw(rng, level)
    said = f'the rule "{RULES[rule]}"' if level == 1 else f"number {rules.index(RULES[rule]) + 1} of the house rules"
    where = "in all threads" if level > 2 else f'in the thread "{thread["title"]}"'
    lock = f' Then lock the thread "{thread["title"]}".' if level > 2 else ""
    changes = [{"table": "posts", "id": row["id"], "set": {"hidden": True}} for row in wrong]
    changes += [{"table": "threads", "id": thread["id"], "set": {"locked": True}}] if level > 2 else []
    known = {
        "user": user, "password": password, "thread": thread["title"], "all": level > 2,
        "rule": RULES[rule] if level == 1 else "", "number": rules.index(RULES[rule]),
    }  # fmt: skip
    return Drawn(
        instruction=f"""
Sign in at {SITE} as {user} with the password {password}. Hide all posts {where} that break {said}, and no others.{lock}""",
        settings={"name": f"{rng.choice(content.BIRDS)} Forum", "user": user, "password": password, "rules": rules},
        tables={"threads": threads, "members": members, "posts": [{k: v for k, v in p.items() if k != "kind"} for p in posts]},
        changes=changes, known=known, max_turns=25 + 10 * level,
    )  # fmt: skip


def breaks(post: ROW, rule: str, standing: dict[str, str]) -> bool:
    """Whether a post breaks a rule."""
    return standing[post["author"]] == "suspended" if rule == "suspended" else bool(post["kind"] == rule)


def _members(rng: Random) -> list[ROW]:
    names = content.people(rng, 12)
    standings = ["suspended"] * 2 + ["good"] * 8 + ["warned"] * 2
    rng.shuffle(standings)
    return [
        {"id": f"m{n}", "name": name, "joined": str(rng.randrange(2009, 2024)), "standing": standing}
        for n, (name, standing) in enumerate(zip(names, standings, strict=True), 1)
    ]


def _posts(rng: Random, threads: list[ROW], members: list[ROW]) -> list[ROW]:
    """Posts of all threads: two of three break no rule by what they say."""
    found: list[ROW] = []
    for thread in threads:
        for _ in range(rng.randrange(8, 14)):
            kind = rng.choice(("good", "good", "good", "good", "phone", "sale"))
            text = rng.choice(BAD.get(kind, GOOD)).format(n=rng.randrange(12, 99), phone=content.phone(rng))
            author = rng.choice(members)["name"]
            found.append(
                {
                    "id": str(len(found) + 1),
                    "thread": thread["id"],
                    "author": author,
                    "text": text,
                    "hidden": False,
                    "kind": kind,
                }
            )
    return found
