"""The streams of the bus: what each keeps, and for whom.

They take the subjects of our message types and no others; for the rest see `shared.bus.strays`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shared.events import COMMANDS as COMMAND_TYPES
from shared.events import EVENTS as EVENT_TYPES
from shared.events import CallRecorded, GroupCompleted, GroupDiscarded, Message
from shared.subjects import DEAD, matches, pattern_of

DUPLICATE_WINDOW_S = 600.0
"""Seconds for which a message's id is remembered; longer than anybody goes on trying to publish it."""

MAX_AGE_S = 86400.0
"""Seconds after which a message that waits for its one consumer, a dead letter, or an idle consumer is forgotten."""


@dataclass(frozen=True, slots=True)
class Stream:
    """One stream.

    Attributes:
        name: on the server.
        subjects: what it keeps.
        work: a message is for one consumer and goes once it is handled; otherwise it stays.
        trimmed: a message stays, however old, until every consumer is through with it and there is need of room; otherwise
            it goes when it is too old.
        drops: a full stream drops its oldest messages; otherwise it takes no more, for better a failed call than a record
            that silently went.
    """

    name: str
    subjects: tuple[str, ...]
    work: bool = False
    trimmed: bool = False
    drops: bool = False


_CALL_TYPES, _GROUP_TYPES = (CallRecorded,), (GroupCompleted, GroupDiscarded)


def _subjects(types: Iterable[type[Message]]) -> tuple[str, ...]:
    return tuple(pattern_of(kind) for kind in types)


CALLS = Stream("FORGE-CALLS", _subjects(_CALL_TYPES), trimmed=True)
EVENTS = Stream(
    "FORGE-EVENTS",
    _subjects(kind for kind in EVENT_TYPES if kind not in (*_CALL_TYPES, *_GROUP_TYPES)),
    trimmed=True,
)
COMMANDS = Stream("FORGE-COMMANDS", _subjects(COMMAND_TYPES), work=True)
# Groups stay once they are handled: which were published is what a collector goes by when the store was wiped.
GROUPS = Stream("FORGE-GROUPS", _subjects(_GROUP_TYPES), drops=True)
DEAD_LETTERS = Stream("FORGE-DEAD", (f"{DEAD}.>",))

STREAMS = (CALLS, EVENTS, COMMANDS, GROUPS, DEAD_LETTERS)


_KEPT = frozenset(subject.removesuffix(".*.*").encode() for s in STREAMS for subject in s.subjects)
_DEAD = f"{DEAD}.".encode()


def is_kept(subject: bytes) -> bool:
    """Whether a stream takes what is published on a subject. Quick: it is asked of every message there is."""
    return subject.rpartition(b".")[0].rpartition(b".")[0] in _KEPT or subject.startswith(_DEAD)


def filters_of(types: Sequence[type[Message]], run_id: str) -> dict[Stream, list[str]]:
    """The subscriptions of some message types in one run (`*`: all runs), by the stream that keeps them."""
    filters: dict[Stream, list[str]] = {}
    for kind in types:
        pattern = pattern_of(kind, run_id)
        filters.setdefault(stream_of(pattern), []).append(pattern)
    return filters


def stream_of(pattern: str) -> Stream:
    """The stream that keeps what is published on a subject (or under a pattern of one message type)."""
    return next(s for s in STREAMS if any(matches(subject, pattern) for subject in s.subjects))


def merged(own: Sequence[str], there: Sequence[str]) -> list[str]:
    """The subjects of a stream that another version of us may have made: our own, and what it has beside them."""
    return [*own, *(s for s in there if not any(matches(s, o) or matches(o, s) for o in own))]
