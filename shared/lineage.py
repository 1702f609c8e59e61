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


_NOTHING = _Mark(digester(), (digester().digest(),))


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
        tails = self._ends[mark.digests[-1]].setdefault(len(full) - mark.end, {})
        tails[full[mark.end :]] = max(seq, tails.get(full[mark.end :], 0))

    def parent(self, prompt: bytes | memoryview, begins_with: int | None = None) -> Parent | None:
        """The longest known call that is a strict prefix of `prompt`.

        Args:
            prompt: of a call.
            begins_with: number of a call that is known to be a prefix of it, if any is; only what follows is hashed then.
        """
        return self._longest(prompt, self._marks.get(begins_with or 0, _NOTHING).after(prompt).digests)

    def _longest(self, prompt: bytes | memoryview, digests: Sequence[bytes]) -> Parent | None:
        for block in range(len(digests) - 1, -1, -1):
            at, tails = block * _BLOCK, self._ends.get(digests[block], {})
            for size in sorted(tails, reverse=True):
                if at + size < len(prompt) and (seq := tails[size].get(bytes(prompt[at : at + size]))) is not None:
                    return Parent(seq, (at + size) // _ID_BYTES)
        return None
