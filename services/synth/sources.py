"""What a step is made with: answers of models, and rollouts in which a harness built. Who asks notes it, the step keeps it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import msgspec


class Sources(msgspec.Struct, kw_only=True):
    """Keys of answers, and recording sessions of rollouts, in the order in which they were asked for."""

    calls: list[str] = []
    sessions: list[str] = []


_noted: ContextVar[Sources | None] = ContextVar("noted", default=None)


@contextmanager
def noting() -> Iterator[Sources]:
    """What is noted by this task, and by those that it starts, for as long as the context lasts."""
    sources = Sources()
    token = _noted.set(sources)
    try:
        yield sources
    finally:
        _noted.reset(token)


def note(*, call: str = "", session: str = "") -> None:
    """Notes an answer or a rollout that was used; of no effect where nobody wants to know."""
    if (sources := _noted.get()) is None:
        return
    sources.calls += [call] if call else []
    sources.sessions += [session] if session else []
