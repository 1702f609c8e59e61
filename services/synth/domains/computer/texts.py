"""Edit lists in an editor, and save them."""

from __future__ import annotations

from random import Random

from services.synth.domains import content
from services.synth.domains.computer.drawing import window
from services.synth.domains.folder import Drawn

THINGS = (
    "flour", "eggs", "candles", "string", "soap", "paper", "nails", "apples", "tea", "matches", "rice", "wool", "salt", "ink",
    "corks", "beans", "honey", "chalk", "oats", "wire",
)  # fmt: skip

ASK = {
    "change": 'change the amount in the line "{old}" to {amount}',
    "remove": 'delete the line "{old}"',
    "add": 'add the line "{new}" at the end',
    "move": 'move the line "{old}" from there to the end of the list cellar',
}


def draw(rng: Random, level: int) -> Drawn:
    """Level 1 changes an amount, 2 takes a line out and adds one as well, 3 moves a line to another list besides."""
    things = rng.sample(THINGS, 17)
    lists = {"shopping": _lines(rng, things[:9]), "cellar": _lines(rng, things[9:16])}
    amounts = rng.sample(range(100, 1000), 2)
    change, out, moved = rng.sample(lists["shopping"], 3)
    steps = [("change", change, f"{amounts[0]} {_thing(change)}")]
    if level > 1:
        steps += [("remove", out, ""), ("add", "", f"{amounts[1]} {things[16]}")]
    if level > 2:
        steps.append(("move", moved, ""))
    asked = [ASK[kind].format(old=old, new=new, amount=new.partition(" ")[0]) for kind, old, new in steps]
    after = done(lists, steps)
    return Drawn(
        instruction=f"""
An editor on the screen has two lists, shopping and cellar. In the list shopping: {"; ".join(asked)}. Leave no empty lines, and
save every list that you change: each has to be saved by itself, while it is open.""",
        settings={"windows": [window("editor", f"{rng.choice(content.BIRDS)} Editor", (40, 40, 640, 480))]},
        tables={"documents": [{"id": name, "name": name, "text": "\n".join(lines)} for name, lines in lists.items()]},
        changes=[
            {"table": "documents", "id": name, "set": {"text": "\n".join(lines)}}
            for name, lines in after.items() if lines != lists[name]
        ],
        known={"steps": steps}, max_turns=25 + 10 * level,
    )  # fmt: skip


def done(lists: dict[str, list[str]], steps: list[tuple[str, str, str]]) -> dict[str, list[str]]:
    """The lists after all steps."""
    shopping, cellar = list(lists["shopping"]), list(lists["cellar"])
    for kind, old, new in steps:
        if kind == "change":
            shopping[shopping.index(old)] = new
        if kind in ("remove", "move"):
            shopping.remove(old)
        if kind == "add":
            shopping.append(new)
        if kind == "move":
            cellar.append(old)
    return {"shopping": shopping, "cellar": cellar}


def _lines(rng: Random, things: list[str]) -> list[str]:
    return [f"{rng.randrange(2, 90)} {thing}" for thing in things]


def _thing(line: str) -> str:
    return line.partition(" ")[2]
