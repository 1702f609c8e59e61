"""Requests that differ in one list alone: it is cut out, and what stands besides is not read again.

All requests of a harness say the same besides their messages, with tools that are long. And to find the end of the messages
takes as long as to read them: where it is known what stands before and behind them, it need not be looked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import msgspec

T = TypeVar("T")

_MOST, _LONGEST = 16, 512 * 1024
"""Kinds of requests that are remembered, and bytes of one."""
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_MARK, _NULL = msgspec.Raw(b"0"), msgspec.Raw(b"null")


class Parts(NamedTuple, Generic[T]):
    """The list of a request as JSON, what it holds, and what was read of the rest."""

    raw: bytes
    items: list[msgspec.Raw]
    besides: T


class Besides(Generic[T]):
    """Takes requests apart.

    Args:
        key: of the list, in the object that a request is.
        split: gives what the list (JSON) holds; raises msgspec.DecodeError for what is no JSON, and something else for no list.
        read: reads what stands besides, an object (JSON) without that key; nobody may change what it gives.
    """

    def __init__(self, key: str, split: Callable[[bytes], list[msgspec.Raw]], read: Callable[[bytes], T]) -> None:
        self._key, self._split, self._read = key, split, read
        self._known: dict[tuple[bytes, bytes], T] = {}
        self._order: list[tuple[bytes, bytes]] = []  # the more stands behind the list, the earlier it is tried

    def __call__(self, body: bytes) -> Parts[T]:
        """The parts of a request; a list that is not there is `null`.

        Raises:
            msgspec.DecodeError: it is no JSON object; and whatever `split` and `read` raise.
        """
        for before, behind in self._order:
            end = len(body) - len(behind)
            if body.startswith(b"[", len(before), end) and body.startswith(before) and body.endswith(behind):
                raw = body[len(before) : end]
                try:
                    return Parts(raw, self._split(raw), self._known[before, behind])
                except msgspec.DecodeError:  # more than the list stands between them
                    continue
        return self._learn(body)

    def _learn(self, body: bytes) -> Parts[T]:
        fields = _fields.decode(body)
        raw = bytes(fields.pop(self._key, _NULL))
        parts = Parts(raw, self._split(raw), self._read(msgspec.json.encode(fields)))
        at = body.find(raw)
        before, behind = body[:at], body[at + len(raw) :]
        if at >= 0 and len(before) + len(behind) <= _LONGEST and self._stands_between(before, behind):
            self._known[before, behind] = parts.besides
            if len(self._known) > _MOST:
                del self._known[next(iter(self._known))]
            self._order = sorted(self._known, key=lambda cut: -len(cut[1]))
        return parts

    def _stands_between(self, before: bytes, behind: bytes) -> bool:
        """Whether the value of the key stands there, and not another one that reads the same. If so, whatever JSON stands there
        is that value, since what a text means at some place is decided by what comes before."""
        try:
            return _fields.decode(before + _MARK + behind).get(self._key) == _MARK
        except msgspec.DecodeError:
            return False
