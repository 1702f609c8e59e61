"""Duplicates of tasks in the pool, and of those that evaluation uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from services.synth.gates.base import Looking
from services.synth.gates.likeness import cosines, overlap, shared_row, usual_rows
from services.synth.gates.named import named, without
from services.synth.gates.texts import normal, text_of
from services.synth.model import Proposal, Verdict
from services.synth.models.prompts import Prompts
from services.synth.ports import Judge, Room, Text

ROWS = 0.7
"""MinHash: more rows of 3 or 5 words in common make a copy."""
SAME, ALIKE = 0.90, 0.80
"""Cosine: from SAME on it is a copy in other words, from ALIKE on a judge says."""
THINGS, COMMON, SAID = 0.5, 2, 0.5
"""The share and the number of the things named that two tasks have in common, and the cosine: from all three on it is a copy in
other words, unless a judge says otherwise."""
LEAKED = 0.85
"""Cosine: from here on it is a task of the evaluation in other words."""
LONG_ROW = 13
"""Words in a row that no task has in common with one of the evaluation."""


class Same(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a judge says of two tasks that are alike.

    Attributes:
        why: in a sentence.
        same: they are one task in other words.
    """

    why: str
    same: bool


@dataclass(frozen=True, slots=True)
class Close:
    """A task that is too near: why, as the reason of a verdict; which; and how near by what was measured."""

    reason: str
    name: str
    text: str
    near: dict[str, Any]


class Copies(Looking):
    """Nothing that the pool has already. Tasks of one family are one text with other data: of these the data count.

    Args:
        prompts: `same` is what a judge is asked.
    """

    name = "copies"
    compares = True

    def __init__(self, prompts: Prompts) -> None:
        self._prompts = prompts

    async def look(self, proposal: Proposal, folder: Path, room: Room) -> Verdict:
        """See `Looking.look`."""
        own, pool = text_of(folder), room.pool.accepted()
        others = [text for text in pool if text.family != own.family]
        if found := same_data(own, pool):
            return self._copy(found)
        said = cosines(own.text, [text.text for text in others])
        if not said:
            return self.passed(f"compared with {len(pool)}")
        best = max(range(len(said)), key=said.__getitem__)
        near = {"task": others[best].name, "cosine": round(said[best], 3)}
        found = same_words(own, others)
        if said[best] >= SAME:
            found = found or Close("paraphrase", others[best].name, others[best].text, near)
        if found and (worse := leaked(own, room.pool.held_out())) and likeness(own, worse) > likeness(own, found):
            return self.passed(f"like {found.name}, but more so like {worse.name} of the evaluation", nearest=near)
        if found:
            return self._copy(found)
        if like := same_things(own, others, usual_of(own, pool)):
            return await self._asked(own, like, room.judge) if room.judge else self._copy(like)
        if said[best] < ALIKE:
            return self.passed(f"compared with {len(pool)}", nearest=near)
        if room.judge is None:
            return self.passed(f"alike to {others[best].name}; no judge is configured, so it is kept", nearest=near)
        return await self._asked(own, Close("paraphrase", others[best].name, others[best].text, near), room.judge)

    async def _asked(self, own: Text, other: Close, judge: Judge) -> Verdict:
        """It is alike, but maybe another task."""
        answer = await judge.ask(self._prompts.fill("same", {"first": own.text, "second": other.text}), Same)
        if answer.same:
            return self._copy(replace(other, near=other.near | {"judge": answer.why}))
        return self.passed(f"alike to {other.name}, but another one: {answer.why}", nearest=other.near)

    def _copy(self, found: Close) -> Verdict:
        detail = f"it is a copy of {found.name} ({found.reason}): ask for something else. That task says:\n{found.text.strip()}"
        return self.failed(found.reason, detail, task=found.name, near=found.near)


class Contamination(Looking):
    """Nothing that evaluation asks: what is learned of it would be taken for ability. With tasks of its own family it may share
    words, not data: who evaluates with those wants to know how the family is learned."""

    name = "contamination"

    async def look(self, proposal: Proposal, folder: Path, room: Room) -> Verdict:
        """See `Looking.look`."""
        held_out = room.pool.held_out()
        if not held_out:
            return self.skipped(
                "there is no evaluation set: name folders of tasks in synth.gates.heldout, or by --heldout of tasks check"
            )
        if found := leaked(text_of(folder), held_out):
            detail = f"it is too near to {found.name}, which evaluation uses ({found.reason}): ask for something else"
            return self.failed("contaminated", detail, task=found.name, how=found.reason, near=found.near)
        return self.passed(f"compared with {len(held_out)}")


def same_data(own: Text, pool: Sequence[Text]) -> Close | None:
    """A task that is the same but for its name, or that finds the same and asks the same or has the same answer."""
    for other in pool:
        if own.digest == other.digest:
            return Close("exact-copy", other.name, other.text, {})
        asks = normal(own.text) == normal(other.text)
        if own.environment and own.environment == other.environment and (asks or own.answer == other.answer):
            return Close(
                "same-data", other.name, other.text, {"same instruction": asks, "same answer": own.answer == other.answer}
            )
    return None


def same_words(own: Text, others: Sequence[Text]) -> Close | None:
    """A task of nearly the same words."""
    for other in others:
        if (near := overlap(own.text, other.text)) >= ROWS:
            return Close("near-copy", other.name, other.text, {"jaccard": round(near, 3)})
    return None


def same_things(own: Text, others: Sequence[Text], usual: frozenset[str]) -> Close | None:
    """The task that speaks most of the same things, if it does so enough to be the same in other words."""
    asks = without(own.text, usual)
    found = [(*named(asks, without(other.text, usual)), other) for other in others]
    close = [one for one in found if one[0] >= THINGS and one[1] >= COMMON and one[2] >= SAID]
    if not close:
        return None
    share, common, cosine, other = max(close, key=lambda one: one[:3])
    near = {"task": other.name, "things": round(share, 3), "in common": common, "cosine": round(cosine, 3)}
    return Close("paraphrase", other.name, other.text, near)


def usual_of(own: Text, others: Sequence[Text]) -> frozenset[str]:
    """What tasks say alike that have nothing else in common."""
    return usual_rows((text.family, text.text) for text in (own, *others))


def likeness(own: Text, other: Close) -> float:
    """How like another task one is, to say which of several it is most like."""
    return overlap(own.text, other.text) + cosines(own.text, [other.text])[0]


def leaked(own: Text, held_out: Sequence[Text]) -> Close | None:
    """A task of the evaluation that is the same, or one of another family with a long row of words in common, or that says the
    same."""
    if found := same_data(own, held_out):
        return found
    others = [text for text in held_out if text.family != own.family]
    usual = usual_of(own, held_out)
    for other in others:
        if row := shared_row(own.text, other.text, LONG_ROW, usual):
            return Close("long-row", other.name, other.text, {"words": row})
    for other, near in zip(others, cosines(own.text, [text.text for text in others]), strict=True):
        if near >= LEAKED:
            return Close("paraphrase", other.name, other.text, {"cosine": round(near, 3)})
    return same_things(own, others, usual)
