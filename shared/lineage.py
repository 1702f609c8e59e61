"""Which earlier call a prompt grew from: the longest ``full(j) = prompt(j) + completion(j)`` that is a strict token prefix.

All earlier calls of the rollout count, not only the last one, so that interleaved subagents do not break the main chain.
Used by the proxy (to store prompts as deltas) and by the collector (to merge calls into rows).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from shared.packing import digester

_ID_BYTES = 4
_BLOCK = 256 * _ID_BYTES
_PIECE = 16 * _ID_BYTES


class _Mark(NamedTuple):
    """How far a sequence was hashed: the running hash of its whole blocks, and its digest after each of them."""

    state: blake2b
    digests: tuple[bytes, ...]

    @property
    def end(self) -> int:
        """Bytes of the whole blocks."""
        return (len(self.digests) - 1) * _BLOCK

    def after(self, data: bytes | memoryview) -> _Mark:
        """The mark of a sequence that begins with these blocks."""
        state, digests, view = self.state.copy(), list(self.digests), memoryview(data)
        for at in range(self.end + _BLOCK, len(data) + 1, _BLOCK):
            state.update(view[at - _BLOCK : at])
            digests.append(state.digest())
        return _Mark(state, tuple(digests))


_Tails = dict[bytes, dict[bytes, int]]
"""Numbers of calls by the whole pieces behind their blocks, and what follows these."""
_NOTHING = _Mark(digester(), (digester().digest(),))


@dataclass(frozen=True, slots=True)
class Parent:
    """A call's parent: its number and the tokens taken over from it."""

    seq: int
    length: int


class Lineage:
    """Index of the calls of one rollout. Sequences are packed uint32 (`shared.packing`).

    A sequence is filed under the digest of its whole blocks of 256 tokens; under that, by the whole pieces of 16 tokens that
    follow; under these, by what remains. So a look-up hashes the prompt once and asks one table per block, and where there is
    something some 16 tables more, whatever the number of calls.
    """

    def __init__(self) -> None:
        self._ends: defaultdict[bytes, _Tails] = defaultdict(dict)
        self._marks: dict[int, _Mark] = {}

    def add(self, seq: int, full: bytes, parent: int | None = None) -> None:
        """Makes ``full(seq)`` known. Of two calls with equal ids the later one counts.

        Args:
            seq: its number.
            full: its prompt and completion.
            parent: number of a call that is known to be a prefix of it; only what follows is hashed then.
        """
        mark = self._marks.get(parent or 0, _NOTHING).after(full)
        self._marks[seq] = mark
        tail = full[mark.end :]
        pieces = len(tail) // _PIECE * _PIECE
        ends = self._ends[mark.digests[-1]].setdefault(tail[:pieces], {})
        ends[tail[pieces:]] = max(seq, ends.get(tail[pieces:], 0))

    def parent(self, prompt: bytes | memoryview, begins_with: int | None = None) -> Parent | None:
        """The longest known call that is a strict prefix of `prompt`.

        Args:
            prompt: of a call.
            begins_with: number of a call that is known to be a prefix of it, if any is; only what follows is hashed then.
        """
        return self._longest(prompt, self._marks.get(begins_with or 0, _NOTHING).after(prompt).digests)

    def _longest(self, prompt: bytes | memoryview, digests: Sequence[bytes]) -> Parent | None:
        for block in range(min(len(digests), -(-len(prompt) // _BLOCK)) - 1, -1, -1):  # none that ends with the prompt
            if (tails := self._ends.get(digests[block])) and (found := _longest_tail(tails, prompt, block * _BLOCK)):
                return found
        return None


def _longest_tail(tails: _Tails, prompt: bytes | memoryview, at: int) -> Parent | None:
    """The longest of some tails that stands at `at` of a prompt, and does not end with it."""
    rest = bytes(prompt[at : min(at + _BLOCK, len(prompt) - _ID_BYTES)])
    for pieces in range(len(rest) // _PIECE * _PIECE, -1, -_PIECE):
        if ends := tails.get(rest[:pieces]):
            for size in range(min(pieces + _PIECE, len(rest)), pieces - 1, -_ID_BYTES):
                if (seq := ends.get(rest[pieces:size])) is not None:
                    return Parent(seq, (at + size) // _ID_BYTES)
    return None
