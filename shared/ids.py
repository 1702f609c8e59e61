"""Identifiers: what may appear in a NATS subject token, a Redis key and a veRL batch key alike."""

from __future__ import annotations

import re
import secrets
import time

from shared.errors import InvalidId

# No "_": veRL splits batch keys on it. No ".", "*", ">" or blank: NATS gives them a meaning in subjects.
_ID = re.compile(r"[A-Za-z0-9-]{1,120}")


def check_id(value: str, what: str = "id") -> str:
    """Returns `value` if it is a legal identifier.

    Raises:
        InvalidId: it is empty, longer than 120 characters, or has a character outside ``[A-Za-z0-9-]``.
    """
    if not _ID.fullmatch(value):
        raise InvalidId(f"{what} {value!r} is not 1 to 120 of the characters A-Z a-z 0-9 '-'")
    return value


def slug(text: str) -> str:
    """Turns any text (a folder name, say) into a legal identifier."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")[:120] or "x"


def new_run_id() -> str:
    """A run id that sorts by start time and does not collide: ``20261129-193000-4f2a``."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"


def session_id(rollout_id: str, attempt: int) -> str:
    """The recording session of one attempt of a rollout; attempts count from 1."""
    return check_id(f"{rollout_id}-a{attempt}", "session id")


def rollout_of(session: str) -> str:
    """The rollout whose attempt a session records.

    >>> rollout_of(session_id("s1-g03-r0", 2))
    's1-g03-r0'
    """
    return session.rpartition("-a")[0]
