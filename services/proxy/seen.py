"""What was worked out of long texts that come again and again, in the calls of a rollout and in those of its whole group."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

_SHORT = 1024
"""Bytes of a text that is not worth being kept."""
_END = 32


class Seen(Generic[T]):
    """Remembers results. A hash over all of a text would take as long as most of what is done with it: one is looked up by its
    length and its ends, and then compared.

    Args:
        work: makes the result, which nobody may change.
        most: bytes of texts that are kept, those that were used last.
    """

    def __init__(self, work: Callable[[bytes], T], most: int) -> None:
        self._work, self._most, self._size = work, most, 0
        self._kept: OrderedDict[tuple[int, bytes, bytes], tuple[bytes, T]] = OrderedDict()

    def __call__(self, text: bytes) -> T:
        """The result for a text. Raises what the work does."""
        if len(text) < _SHORT:
            return self._work(text)
        key = (len(text), text[:_END], text[-_END:])
        kept = self._kept.get(key)
        if kept is not None and kept[0] == text:
            self._kept.move_to_end(key)
            return kept[1]
        result = self._work(text)
        self._keep(key, text, result)
        return result

    def _keep(self, key: tuple[int, bytes, bytes], text: bytes, result: T) -> None:
        self._size += 0 if key in self._kept else len(text)
        self._kept[key] = (text, result)
        self._kept.move_to_end(key)
        while self._size > self._most:
            self._size -= self._kept.popitem(last=False)[0][0]
