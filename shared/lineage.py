"""Which earlier call a prompt grew from: the longest ``full(j) = prompt(j) + completion(j)`` that is a strict token prefix.

All earlier calls of the rollout count, not only the last one, so that interleaved subagents do not break the main chain.
Used by the proxy (to store prompts as deltas) and by the collector (to merge calls into rows).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from shared.packing import digester

_ID_BYTES = 4
_BLOCK = 256 * _ID_BYTES


class Mark(NamedTuple):
    """How far a sequence was hashed: bytes, in whole blocks, and the running hash up to there."""

    end: int
    state: blake2b


@dataclass(frozen=True, slots=True)
class Parent:
    """A call's parent: its number and the tokens taken over from it."""

    seq: int
    length: int


class Lineage:
    """Index of the calls of one rollout. Sequences are packed uint32 (`shared.packing`).

    A sequence is filed under the digest of its whole blocks of 256 tokens, with what remains after them. So a look-up hashes
    the prompt once and asks one table per block, whatever the number of calls.
    """

    def __init__(self) -> None:
        self._ends: defaultdict[bytes, dict[int, dict[bytes, int]]] = defaultdict(dict)
        self._marks: dict[int, Mark] = {}

    def add(self, seq: int, full: bytes, parent: int | None = None, mark: Mark | None = None) -> None:
        """Makes ``full(seq)`` known. Of two calls with equal ids the later one counts.

        Args:
            seq: its number.
            full: its prompt and completion.
            parent: number of a call that is known to be a prefix of it; only what follows is hashed then.
            mark: of its prompt, where that was looked up; the same holds.
        """
        at, state = mark or self._marks.get(parent or 0) or (0, digester())
        state = state.copy()
        end = len(full) - len(full) % _BLOCK
        state.update(memoryview(full)[at:end])
        self._marks[seq] = Mark(end, state)
        tails = self._ends[state.digest()].setdefault(len(full) - end, {})
        tails[full[end:]] = max(seq, tails.get(full[end:], 0))

    def parent(self, prompt: bytes) -> Parent | None:
        """The longest known call that is a strict prefix of `prompt`."""
        return self.look_up(prompt)[0]

    def look_up(self, prompt: bytes) -> tuple[Parent | None, Mark]:
        """The longest known call that is a strict prefix of `prompt`, and how far that was hashed for it."""
        boundaries, mark = _boundaries(prompt)
        return self._longest(prompt, boundaries), mark

    def _longest(self, prompt: bytes, boundaries: list[tuple[int, bytes]]) -> Parent | None:
        for at, digest in reversed(boundaries):
            tails = self._ends.get(digest, {})
            for size in sorted(tails, reverse=True):
                if at + size < len(prompt) and (seq := tails[size].get(prompt[at : at + size])) is not None:
                    return Parent(seq, (at + size) // _ID_BYTES)
        return None


def _boundaries(data: bytes) -> tuple[list[tuple[int, bytes]], Mark]:
    """Where each whole block ends, and the digest up to there, the beginning being the first; and the mark at the last one."""
    state, view, at = digester(), memoryview(data), 0
    found = [(at, state.digest())]
    for at in range(_BLOCK, len(data) + 1, _BLOCK):
        state.update(view[at - _BLOCK : at])
        found.append((at, state.digest()))
    return found, Mark(at, state)
