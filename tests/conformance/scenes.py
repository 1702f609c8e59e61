"""The scenes: what the model is to do in each, what the verifier wants, and what else must be true afterwards."""

from __future__ import annotations

from dataclasses import dataclass

INSTRUCTION = "Work through the steps of this exercise with your tools, one after the other. Say so when all are done. {mark}\n"
TEXT = "Grüße — naïve façade, 東京, 🦊 and “quotes”; a\\b, tab\\t, $HOME, `x`."
"""A text that suffers from careless hands."""


@dataclass(frozen=True, slots=True)
class Scene:
    """One column of the table.

    Attributes:
        about: what it shows.
        wants: shell condition, in the working folder, that the task is done.
        rows: training rows of the rollout in splice mode; None where it depends on the program.
    """

    about: str
    wants: str
    rows: int | None = 1


_STEPS = '[ "$(cat one.txt)" = one ] && [ "$(cat two.txt)" = one ]'

SCENES: dict[str, Scene] = {
    "plain": Scene("two commands and an answer", _STEPS),
    "streaming": Scene("replies come as increments", _STEPS),
    "tools": Scene("arguments in odd spacing and letters, and a tool for files", '[ -s odd.txt ] && [ -s file.txt ]'),
    "parallel": Scene("two tool calls in one reply", '[ "$(cat a.txt)" = a ] && [ "$(cat b.txt)" = b ]'),
    "thinking": Scene("every reply begins with thinking", _STEPS),
    "malformed": Scene("a tool call whose arguments are no JSON", _STEPS, None),
    "empty": Scene("a reply that is empty", _STEPS, None),
    "retry": Scene("the engine answers 429, then 500", _STEPS),
    "disconnect": Scene("the engine's connection breaks in mid-reply", _STEPS, None),
    "overflow": Scene("a prompt that the engine refuses as too long", _STEPS, None),
    "subagent": Scene("a subagent does the work", '[ "$(cat sub.txt)" = sub ]', None),
    "compaction": Scene("the history is summarised on the way", '[ "$(cat after.txt)" = after ]', None),
    "image": Scene("a picture is looked at", '[ "$(cat seen.txt)" = seen ]', None),
}  # fmt: skip


def mark(kind: str, harness: str, scene: str) -> str:
    """What the script recognises a conversation by; `kind` is `main` or `sub`."""
    return f"[[{kind}:{harness}:{scene}]]"
