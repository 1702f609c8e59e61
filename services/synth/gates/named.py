"""Whether two texts speak of the same things: names, numbers, paths, addresses, and what is quoted. Who asks for the same in
other words keeps these."""

from __future__ import annotations

import re
from functools import cache

from services.synth.gates.likeness import USUAL, cosines
from services.synth.gates.texts import normal

_THINGS = re.compile(
    r"""`[^`\n]+` | "[^"\n]+" | \S*[/@_]\S*\w | [\w.:-]*\d[\w.:-]* | (?<![.!?:]\s)(?<!^)\b[A-Z]\w+""", re.MULTILINE | re.VERBOSE
)
_WORD = re.compile(r"\w[\w.@/-]*\w|\w")


def named(one: str, other: str) -> tuple[float, int, float]:
    """How far two texts speak of the same: Jaccard index of the words by which they name things, how many they have in common,
    and the cosine of their embeddings.

    >>> named("Send Ada the file `a.txt`.", "The file `a.txt` is for Ada.")[:2]
    (1.0, 2)
    """
    mine, theirs = _things(one), _things(other)
    common = len(mine & theirs)
    return (common / len(mine | theirs), common, cosines(one, [other])[0]) if common else (0.0, 0, 0.0)


@cache
def _things(text: str) -> frozenset[str]:
    return frozenset(word for thing in _THINGS.findall(text) for word in _WORD.findall(thing.lower()))


def without(text: str, usual: frozenset[str]) -> str:
    """A text less what many say: without the words of usual rows (see `likeness.usual_rows`)."""
    flat = [(match.span(), part) for match in re.finditer(r"\S+", text) for part in normal(match[0]).split()]
    left = bytearray(b"\1" * len(text))
    for start in range(len(flat) - USUAL + 1):
        row = flat[start : start + USUAL]
        if " ".join(part for _, part in row) in usual:
            for (begin, end), _ in row:
                left[begin:end] = bytes(end - begin)
    return "".join(char for char, stays in zip(text, left, strict=True) if stays)
