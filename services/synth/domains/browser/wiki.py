"""Find a fact in a small encyclopaedia, over one to three articles, and hand it in."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from services.synth.domains import content
from services.synth.domains.folder import Drawn

SITE = "http://site.test/"
KINDS = ("Bridge", "Mill", "Lighthouse", "Theatre", "Tower", "Library")


@dataclass(frozen=True, slots=True)
class World:
    """What the articles are about: facts by name of landmark, person, town."""

    landmarks: dict[str, dict[str, Any]]
    people: dict[str, dict[str, Any]]
    towns: dict[str, dict[str, Any]]


def draw_world(rng: Random) -> World:
    """A world in which every landmark has others with nearly its name."""
    towns = {name: _town(rng) for name in rng.sample(content.TOWNS, 9)}
    people = {name: _person(rng, list(towns)) for name in content.people(rng, 12)}
    names = [
        f"{old}{bird} {kind}" for bird in rng.sample(content.BIRDS, 4) for kind in rng.sample(KINDS, 2) for old in ("", "Old ")
    ]
    return World({name: _landmark(rng, list(towns), list(people)) for name in names}, people, towns)


def _town(rng: Random) -> dict[str, Any]:
    return {
        "river": rng.choice(content.RIVERS),
        "inhabitants": rng.randrange(900, 48_000),
        "charter": rng.randrange(1180, 1560),
    }


def _person(rng: Random, towns: list[str]) -> dict[str, Any]:
    born, died = rng.sample(towns, 2)
    return {
        "year": rng.randrange(1790, 1880),
        "born": born,
        "died": died,
        "trade": rng.choice(("builder", "architect", "engineer")),
    }


def _landmark(rng: Random, towns: list[str], people: list[str]) -> dict[str, Any]:
    designed, restored = rng.sample(people, 2)
    begun = rng.randrange(1840, 1910)
    return {
        "town": rng.choice(towns), "designed": designed, "restored": restored, "begun": begun,
        "opened": begun + rng.randrange(2, 9), "again": begun + rng.randrange(30, 70), "metres": rng.randrange(12, 96),
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Question:
    """What may be asked of a landmark.

    Attributes:
        text: with {0} for the landmark.
        hops: words before a link that is to be followed, and the fact that the link is.
        fact: the answer, of the last article.
        pattern: words of the article around it.
    """

    text: str
    hops: tuple[tuple[str, str], ...]
    fact: str
    pattern: str


DESIGNED, RESTORED = ("designed by", "designed"), ("restored by", "restored")
QUESTIONS = {
    1: (
        Question("In which year was the {0} opened?", (), "opened", r"opened in (\d+)"),
        Question("In which year was the {0} restored?", (), "again", r"In (\d+) it was restored"),
        Question("How many metres high is the {0}?", (), "metres", r"(\d+) metres high"),
    ),
    2: (
        Question("In which year was the designer of the {0} born?", (DESIGNED,), "year", r"born in (\d+)"),
        Question("In which town did the person die who restored the {0}?", (RESTORED,), "died", r"died in (\w+)"),
        Question(
            "In which year did the town in which the {0} stands get its charter?",
            (("stands in", "town"),), "charter", r"charter in (\d+)",
        ),
    ),
    3: (
        Question(
            "On which river lies the town in which the designer of the {0} was born?",
            (DESIGNED, (r"born in \d+ in", "born")), "river", r"on the river (\w+)",
        ),
        Question(
            "How many inhabitants has the town in which the person died who restored the {0}?",
            (RESTORED, ("died in", "died")), "inhabitants", r"has (\d+) inhabitants",
        ),
    ),
}  # fmt: skip
"""By level, which is how many articles have to be read."""


def draw(rng: Random, level: int) -> Drawn:
    """A question about a landmark."""
    world = draw_world(rng)
    question = rng.choice(QUESTIONS[level])
    landmark = rng.choice(list(world.landmarks))
    return Drawn(
        instruction=f"""
The site {SITE} is a small encyclopaedia. Find there: {question.text.format(landmark)}

Send the answer, and nothing but the answer, at the site's answer desk. It takes one answer only, so send it once.""",
        settings={"name": "Little Encyclopaedia", "about": "Articles on landmarks, people and towns of the county."},
        tables={"articles": _articles(rng, world), "answers": []},
        changes=[{"table": "answers", "id": "answers-1", "set": {"answer": answer(world, landmark, question)}}],
        known={"landmark": landmark, "follow": [words for words, _ in question.hops], "pattern": question.pattern},
        fold=True, max_turns=12 + 4 * level,
    )  # fmt: skip


def answer(world: World, landmark: str, question: Question) -> str:
    """The answer, by the facts and not by the articles."""
    facts = world.landmarks[landmark]
    for _, fact in question.hops:
        facts = world.people.get(facts[fact]) or world.towns[facts[fact]]
    return str(facts[question.fact])


def _articles(rng: Random, world: World) -> list[dict[str, Any]]:
    """Articles with links between them, in an order that says nothing."""
    names = [*world.landmarks, *world.people, *world.towns]
    rng.shuffle(names)
    ids = {name: f"a{number}" for number, name in enumerate(names, 1)}

    def link(name: str) -> str:
        return f"[[{ids[name]}|{name}]]"

    def text(name: str) -> tuple[str, list[str]]:
        if f := world.landmarks.get(name):
            return "landmarks", [
                f"The {name} stands in {link(f['town'])}. It was begun in {f['begun']} and opened in {f['opened']}.",
                f"It was designed by {link(f['designed'])}. In {f['again']} it was restored by {link(f['restored'])}.",
                f"It is {f['metres']} metres high. It should not be confused with others of nearly the same name.",
            ]
        if f := world.people.get(name):
            return "people", [
                f"{name}, {f['trade']}, was born in {f['year']} in {link(f['born'])} and died in {link(f['died'])}.",
            ]
        f = world.towns[name]
        return "towns", [
            f"{name} is a town on the river {f['river']}.",
            f"It got its charter in {f['charter']} and has {f['inhabitants']} inhabitants.",
        ]

    found = []
    for name in names:
        kind, paragraphs = text(name)
        found.append({"id": ids[name], "title": name, "kind": kind, "text": paragraphs})
    return found
