"""What a model sees of a call: the conversation, read back out of the prompt's token ids; and what it does with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from tests.engine import real_tokenizer as tokenizer

Json = dict[str, Any]
_BEGINNING = 300  # characters
_RESULT = "<tool_response>\n"


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn: role (`tool` for a result) and text."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """A call.

    Attributes:
        turns: the conversation, whether it came as messages or as ids.
        tools: names of the tools on offer.
        images: how many pictures are in it.
        body: the request.
    """

    turns: list[Turn]
    tools: list[str]
    images: int
    body: Json

    def beginning(self, role: str) -> str:
        """How the first system turn, or the last turn of another role, begins; empty if there is none."""
        turns = [turn.text for turn in self.turns if turn.role == role]
        return (turns[0] if role == "system" else turns[-1])[:_BEGINNING] if turns else ""


@dataclass(frozen=True, slots=True)
class Say:
    """What becomes of a call.

    Attributes:
        text: what the model writes, markup included, without the end of the turn.
        note: what the log shall know of it.
        status: an HTTP status in place of a reply.
        drop_after: break the connection after so many tokens.
        token_delay_s: before every token, in seconds.
    """

    text: str = ""
    note: str = ""
    status: int = 200
    drop_after: int | None = None
    token_delay_s: float = 0.0


class Model(Protocol):
    """Decides what is said."""

    def say(self, prompt: Prompt) -> Say:
        """What becomes of a call."""
        ...


def read_prompt(ids: list[int], body: Json) -> Prompt:
    """The call behind prompt ids."""
    turns: list[Turn] = []
    for piece in tokenizer.decode(ids).split("<|im_start|>")[1:-1]:
        role, _, text = piece.removesuffix("\n").removesuffix("<|im_end|>").partition("\n")
        if role == "user" and text.startswith(_RESULT):
            results = text.removesuffix("\n</tool_response>").split(_RESULT)[1:]
            turns += [Turn("tool", result.removesuffix("\n</tool_response>\n")) for result in results]
        else:
            turns.append(Turn(role, text))
    names = [tool["function"]["name"] for tool in body.get("tools") or []]
    return Prompt(turns, names, ids.count(tokenizer.token("<|vision_start|>")), body)
