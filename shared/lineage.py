"""Which earlier call a prompt grew from: the longest ``full(j) = prompt(j) + completion(j)`` that is a strict token prefix.

All earlier calls of the rollout count, not only the last one, so that interleaved subagents do not break the main chain.
Used by the proxy (to store prompts as deltas) and by the collector (to merge calls into rows).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass

from shared.packing import digester

_ID_BYTES = 4


@dataclass(frozen=True, slots=True)
class Parent:
    """A call's parent: its number and the tokens taken over from it."""

    seq: int
    length: int


class Lineage:
    """Index of the calls of one rollout by (length, prefix digest). Sequences are packed uint32 (`shared.packing`)."""

    def __init__(self) -> None:
        self._lengths: list[int] = []
        self._calls: dict[tuple[int, bytes], int] = {}

    def add(self, seq: int, full: bytes) -> None:
        """Makes ``full(seq)`` known. Of two calls with equal ids the later one counts."""
        self.add_digest(seq, len(full), digester(full).digest())

    def add_digest(self, seq: int, size: int, digest: bytes) -> None:
        """The same for one who knows the digest (`shared.packing.digester`) of the `size` bytes of ``full(seq)`` already."""
        at = bisect_left(self._lengths, size)
        if at == len(self._lengths) or self._lengths[at] != size:
            insort(self._lengths, size)
        self._calls[size, digest] = max(seq, self._calls.get((size, digest), 0))

    def parent(self, prompt: bytes) -> Parent | None:
        """The longest known call that is a strict prefix of `prompt`, in one pass over it, whatever the number of calls."""
        found: Parent | None = None
        state, done = digester(), 0
        for size in self._lengths:
            if size >= len(prompt):
                break
            state.update(memoryview(prompt)[done:size])
            done = size
            seq = self._calls.get((size, state.digest()))
            if seq is not None:
                found = Parent(seq, size // _ID_BYTES)
        return found
