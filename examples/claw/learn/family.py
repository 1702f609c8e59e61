"""The tasks, and the careless teacher whose demonstrations the warm start imitates.

"Reply to mail m2 with red of chat fox": `./office chat read fox` shows four lines such as `... red 42`, and
`./office mail reply m2 red 42` answers. What a demonstration shows of the office is what the office itself says.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from examples.lookup.family import FILES, GUESSES, KEYS, LINES, NUMBERS, P_FIRST_LINE, P_FORGET, P_GUESS, Split, split_of
from examples.lookup.words import Message, call, result
from services.synth.domains.claw.draft import Draft, write
from services.synth.domains.claw.office.client import shown
from services.synth.domains.claw.office.engine import Office

MAILS = 3
P_WRONG_MAIL = 0.1
NOW = "2026-03-02T09:00"
ME, OTHERS = "me@lumo.test", ("ada@lumo.test", "bilal@lumo.test", "carmen@lumo.test")
SAYS = f"{NOW} {OTHERS[0]}:"
"""Begins every line of the chat."""
READ, REPLY = "./office chat read", "./office mail reply"


@dataclass(frozen=True, slots=True)
class ReplyTask:
    """One task.

    Attributes:
        channel: of the chat.
        key: what is asked for.
        mail: number of the mail that asks.
        table: (key, number) of the lines in the channel, in their order.
    """

    channel: str
    key: str
    mail: int
    table: tuple[tuple[str, int], ...]

    @property
    def instruction(self) -> str:
        """What the agent is asked to do."""
        return f"Reply to mail m{self.mail} with {self.key} of chat {self.channel}"

    @property
    def answer(self) -> str:
        """What the reply must say."""
        return f"{self.key} {dict(self.table)[self.key]}"

    @property
    def office(self) -> dict[str, Any]:
        """As its service begins with it."""
        said = [{"from": OTHERS[0], "date": NOW, "text": f"{key} {number}"} for key, number in self.table]
        mails = {
            f"m{n}": {
                "id": f"m{n}", "from": sender, "to": [ME], "cc": [], "subject": "A question", "text": "Which number is it?",
                "folder": "inbox", "date": NOW,
            } for n, sender in enumerate(OTHERS, 1)
        }  # fmt: skip
        return {
            "me": ME, "now": NOW, "folders": ["inbox", "sent", "archive"], "last": {"mail": MAILS, "events": 0, "contacts": 0},
            "mail": mails, "events": {}, "contacts": {}, "chat": {self.channel: said}, "files": {},
        }  # fmt: skip


def make_task(rng: random.Random, split: Split) -> ReplyTask:
    """Draws a task of a split: a quarter of the pairs of channel and key is in no training task or demonstration."""
    while True:
        channel, key = rng.choice(FILES), rng.choice(KEYS)
        if split_of(channel, key) == split:
            break
    keys = [*rng.sample([k for k in KEYS if k != key], LINES - 1), key]
    rng.shuffle(keys)
    return ReplyTask(channel, key, rng.randint(1, MAILS), tuple(zip(keys, rng.sample(NUMBERS, LINES), strict=True)))


def demonstrate(task: ReplyTask, rng: random.Random) -> list[Message]:
    """The careless teacher solves a task: it may guess without reading, stop without answering, take the first line "
    "whatever was
    asked for, or answer another mail."""
    office, mail = Office(task.office), task.mail
    if rng.random() < P_WRONG_MAIL:
        mail = mail % MAILS + 1
    messages: list[Message] = [{"role": "user", "content": task.instruction}]
    done: Message = {"role": "assistant", "content": "done"}
    if rng.random() < P_GUESS:
        line = f"{task.key} {rng.choice(GUESSES)}"
    else:
        messages += [
            call(f"{READ} {task.channel}"),
            result(shown("chat", office.call("GET", f"/chat/{task.channel}", {}, None)[1])),
        ]
        if rng.random() < P_FORGET:
            return [*messages, done]
        line = "{} {}".format(*task.table[0]) if rng.random() < P_FIRST_LINE else task.answer
    sent = office.call("POST", f"/mail/m{mail}/reply", {}, {"text": line})[1]
    return [*messages, call(f"{REPLY} m{mail} {line}"), result(shown("mail", sent)), done]


def write_task(folder: Path, task: ReplyTask, seed: int) -> None:
    """Writes a task folder."""
    others = [f"{key} {number}" for key, number in task.table if key != task.key]
    check = (
        f"expect.mail_sent(to={OTHERS[task.mail - 1]!r}, contains=[{task.answer!r}], lacks={others!r}, answers='m{task.mail}')"
    )
    solve = f"{REPLY} m{task.mail} $({READ} {task.channel} | sed -n 's/.*: \\({task.key} .*\\)/\\1/p')"
    write(Draft(task.instruction, task.office, solve, [check], max_turns=3), folder, "chat-reply", "easy", seed)
