"""The task family, and the careless teacher whose demonstrations the warm start imitates. Standard library only.

A task's working folder holds one small text file (one hop) or two (two hops). The agent is asked to find the number of a key
and to write it to another file. One hop: read the source, pick the key's line among four, write it. Two hops: the source only
names the file that has the numbers, so three dependent commands are needed.
"""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass
from typing import Literal

from examples.lookup.words import Message, call, result

FILES = ("fox", "owl", "cat", "ant", "bee", "cow", "elk", "hen", "pig", "ram", "yak", "bat")
KEYS = ("red", "blue", "gold", "pink", "gray", "lime", "teal", "navy")
TARGETS = ("cup", "box", "jar", "pot", "tin", "bag")
NUMBERS = range(10, 100)
LINES = 4

P_GUESS = 0.6
P_FORGET = 0.1
P_FIRST_LINE = 0.2
P_WRONG_FILE = 0.1
GUESSES = (11, 42, 77)

TOOLS = [{"type": "function", "function": {
    "name": "bash", "description": "Run a shell command.",
    "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
}}]  # fmt: skip
"""The tool list of the `react` harness, which demonstrations are rendered with."""

Split = Literal["train", "heldout"]


@dataclass(frozen=True, slots=True)
class LookupTask:
    """One task.

    Attributes:
        source: file that the instruction names, without its `.txt`, as all names here.
        key: what to look for.
        target: file to write to.
        table: (key, number) of the lines, in their order.
        second: file that holds the table when the source only points to it, else empty.
    """

    source: str
    key: str
    target: str
    table: tuple[tuple[str, int], ...]
    second: str = ""

    @property
    def hops(self) -> int:
        """Files to be read."""
        return 2 if self.second else 1

    @property
    def instruction(self) -> str:
        """What the agent is asked to do."""
        return f"Find {self.key} in {self.source}.txt and write it to {self.target}.txt"

    @property
    def answer(self) -> str:
        """The line that the target must hold."""
        return f"{self.key} {dict(self.table)[self.key]}"

    @property
    def files(self) -> dict[str, str]:
        """Content of the working folder by file name."""
        table = render_table(self.table)
        if not self.second:
            return {f"{self.source}.txt": table}
        return {f"{self.source}.txt": f"see {self.second}.txt\n", f"{self.second}.txt": table}


@dataclass(frozen=True, slots=True)
class Demonstration:
    """An episode as chat messages, and whether the verifier would have rewarded it."""

    messages: list[Message]
    success: bool


def split_of(source: str, key: str) -> Split:
    """Where tasks with this (file, key) pair belong: a quarter of the pairs is in no training task or demonstration."""
    return "heldout" if hashlib.sha256(f"{source}/{key}".encode()).digest()[0] < 64 else "train"


def make_task(rng: random.Random, split: Split) -> LookupTask:
    """Draws a task of a split."""
    source, key = _draw_pair(rng, split)
    hops = rng.choice((1, 2))
    target = rng.choice(TARGETS)
    keys = [*rng.sample([k for k in KEYS if k != key], LINES - 1), key]
    rng.shuffle(keys)
    table = tuple(zip(keys, rng.sample(NUMBERS, LINES), strict=True))
    second = rng.choice([f for f in FILES if f != source]) if hops == 2 else ""
    return LookupTask(source, key, target, table, second)


def make_tasks(split: Split, count: int, seed: int) -> list[LookupTask]:
    """`count` tasks of a split, always the same for a seed."""
    rng = random.Random(f"{split}/{seed}")
    return [make_task(rng, split) for _ in range(count)]


def demonstrate(task: LookupTask, rng: random.Random) -> Demonstration:
    """The careless teacher solves a task.

    It writes a guess without reading anything (`P_GUESS`), or reads, and then stops without writing (`P_FORGET`) or takes the
    first line whatever the key (`P_FIRST_LINE`). Either way it may write to the source instead of the target (`P_WRONG_FILE`).
    """
    target = task.source if rng.random() < P_WRONG_FILE else task.target
    messages: list[Message] = [{"role": "user", "content": task.instruction}]
    done: Message = {"role": "assistant", "content": "done"}
    if rng.random() < P_GUESS:
        line = f"{task.key} {rng.choice(GUESSES)}"
    else:
        for name, text in task.files.items():
            messages += [call(f"cat {name}"), result(text.rstrip("\n"))]
        if rng.random() < P_FORGET:
            return Demonstration([*messages, done], success=False)
        line = "{} {}".format(*task.table[0]) if rng.random() < P_FIRST_LINE else task.answer
    messages += [call(f"echo {line} > {target}.txt"), result("ok"), done]
    return Demonstration(messages, success=line == task.answer and target == task.target)


def render_table(table: tuple[tuple[str, int], ...]) -> str:
    """A table as a file holds it, a line an entry."""
    return "".join(f"- {key} {number}\n" for key, number in table)


def _draw_pair(rng: random.Random, split: Split) -> tuple[str, str]:
    while True:
        source, key = rng.choice(FILES), rng.choice(KEYS)
        if split_of(source, key) == split:
            return source, key
