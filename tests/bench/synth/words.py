"""Other words for the same: lightly changed, and changed until no row of words is left to be found by."""

from __future__ import annotations

import base64
import math
import re
from random import Random

from services.synth.gates.copies import ROWS
from services.synth.gates.likeness import overlap

NAMES = ("alder", "basil", "cedar", "dahlia", "elder", "fennel", "gorse", "hazel", "iris", "juniper", "kale", "linden")
_OTHER = {
    "read": "consult", "write": "put down", "find": "locate", "enter": "fill in", "create": "make", "delete": "remove",
    "remove": "delete", "send": "mail off", "add": "include", "count": "tally", "sum": "total", "list": "enumerate",
    "all": "every", "every": "each", "each": "every", "then": "after that", "and": "plus", "file": "document",
    "folder": "directory", "into": "to", "from": "out of", "with": "having", "must": "has to", "should": "ought to",
    "please": "kindly", "copy": "duplicate", "move": "shift", "open": "open up", "save": "store", "answer": "reply",
    "reply": "answer", "largest": "biggest", "smallest": "least", "first": "earliest", "last": "final", "only": "just",
    "exactly": "precisely", "whose": "of which the", "which": "that", "who": "that", "has": "carries", "have": "carry",
    "is": "happens to be", "are": "happen to be", "use": "take", "one": "a single", "line": "row", "text": "wording",
    "name": "title", "number": "figure", "type": "key in", "press": "hit", "click": "hit", "window": "dialog",
    "page": "screen", "shows": "displays", "called": "named", "nothing": "not anything",
}  # fmt: skip
_LIGHT = ("Please do this. ", "Here is what I need. ", "A small job for you. ")
_CLAUSE = re.compile(r"(?<=[.!?;:,])\s+|\s+(?=(?:and|then|into|to|from|whose|which|with|in|of)\s)")
_KEPT = re.compile(r"`[^`]*`|\"[^\"]*\"|\S*[/@_.]\S*\w|\S*\d\S*")
"""What a reworded text must say as it was: paths, addresses, numbers, what is quoted."""


def quoted(text: str) -> str:
    """As a note has it."""
    return "What I did last time:\n" + "".join(f"    {line}\n" for line in text.splitlines())


def packed(text: str) -> str:
    """As base64, in lines."""
    return base64.encodebytes(text.encode()).decode()


def polite(text: str, rng: Random) -> str:
    """With a sentence before it and a few words changed, as long as a row of words in most places stays."""
    before = rng.choice(_LIGHT) if len(text.split()) > 30 else "Please: "
    changed = before + _reworded(text, 0.1, rng)
    return changed if overlap(changed, text) >= ROWS + 0.05 else before + text


def paraphrased(text: str, rng: Random) -> str:
    """In another order, with as many other words as it takes until few rows of words are left."""
    turned = _turned(text, rng)
    tries = (_reworded(turned, share, rng) for share in (0.25, 0.5, 0.75, 1.0))
    return next((one for one in tries if overlap(one, text) < ROWS - 0.05), _reworded(turned, 1.0, rng))


def _turned(text: str, rng: Random) -> str:
    parts = [part for part in re.split(r"(?<=[.!?])\s+|\n+", text) if part.strip()]
    sentences = [[clause for clause in _CLAUSE.split(part) if clause] for part in parts]
    rng.shuffle(sentences)
    return "\n".join(" ".join(clauses[1:] + clauses[:1]).rstrip(" .,;:") + "." for clauses in sentences) + "\n"


def _reworded(text: str, share: float, rng: Random) -> str:
    """With about such a share of the words changed that have another one."""
    words = text.split(" ")
    free = [at for at, word in enumerate(words) if not _KEPT.fullmatch(word) and word.lower() in _OTHER]
    for at in rng.sample(free, math.ceil(share * len(free))):
        words[at] = _OTHER[words[at].lower()]
    return " ".join(words)
