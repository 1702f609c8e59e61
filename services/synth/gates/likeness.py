"""How alike texts are: by their words in a row (MinHash), by what they say (embeddings)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from services.synth.gates.texts import normal

USUAL = 5
_SEVERAL = 3
_HASHES = 128
_SEED = 1


def shingles(text: str, size: int) -> list[str]:
    """All rows of so many words in a text, each once; the text itself if it has fewer."""
    words = normal(text).split()
    if len(words) < size:
        return [" ".join(words)]
    return list(dict.fromkeys(" ".join(words[i : i + size]) for i in range(len(words) - size + 1)))


@cache
def signature(text: str, size: int) -> Any:
    """MinHash of a text's rows of words."""
    from rensa import RMinHash

    made = RMinHash(num_perm=_HASHES, seed=_SEED)
    made.update(shingles(text, size))
    return made


def overlap(one: str, other: str) -> float:
    """Jaccard index of two texts' rows of 3 or of 5 words, whichever is more, as MinHash estimates it."""
    return max(float(signature(one, size).jaccard(signature(other, size))) for size in (3, 5))


def shared_row(one: str, other: str, size: int, usual: frozenset[str] = frozenset()) -> str:
    """A row of so many words that two texts have in common; empty if they have none, or are shorter.

    Args:
        one: a text.
        other: another one.
        size: of the row, in words.
        usual: rows of `USUAL` words that say nothing of what they stand in: the words of these are left out.
    """
    rows = set(_telling(other, size, usual))
    return next((row for row in _telling(one, size, usual) if row in rows), "")


def usual_rows(texts: Iterable[tuple[str, str]]) -> frozenset[str]:
    """Rows of `USUAL` words that texts of several families have: a manner of speaking, such as how a tool is to be used.

    Args:
        texts: each with the family that it is of.
    """
    families: defaultdict[str, set[str]] = defaultdict(set)
    for family, text in texts:
        for row in _rows(text):
            families[row].add(family)
    return frozenset(row for row, found in families.items() if len(found) >= _SEVERAL)


@cache
def _rows(text: str) -> tuple[str, ...]:
    return tuple(shingles(text, USUAL))


def _telling(text: str, size: int, usual: frozenset[str]) -> list[str]:
    """All rows of so many words of a text that no usual one is part of."""
    return [
        row for row in shingles(text, size) if len(row.split()) == size and not any(r in usual for r in shingles(row, USUAL))
    ]


def cosines(text: str, others: Sequence[str]) -> list[float]:
    """How alike a text is to others in what they say: cosine of their embeddings."""
    own = _embedded(text)
    return [float(own @ _embedded(other)) for other in others]


@cache
def _embedded(text: str) -> Any:
    return _model().embed([text], norm=True)[0]


@cache
def _model() -> Any:
    """Word vectors that come with their package: nothing is downloaded."""
    import wordllama

    return wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
