"""The streams of the bus: what each keeps, and for whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shared.events import Message
from shared.subjects import DEAD, below, matches, pattern_of

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


CALLS = Stream("FORGE-CALLS", (below("evt", "call"),), trimmed=True)
EVENTS = Stream(
    "FORGE-EVENTS",
    tuple(below("evt", noun) for noun in ("run", "rollout", "session", "trajectory", "weights", "task")),
    trimmed=True,
)
COMMANDS = Stream("FORGE-COMMANDS", (below("cmd"),), work=True)
# Groups stay once they are handled: which were published is what a collector goes by when the store was wiped.
GROUPS = Stream("FORGE-GROUPS", (below("evt", "group"),), drops=True)
DEAD_LETTERS = Stream("FORGE-DEAD", (f"{DEAD}.>",))

STREAMS = (CALLS, EVENTS, COMMANDS, GROUPS, DEAD_LETTERS)


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
