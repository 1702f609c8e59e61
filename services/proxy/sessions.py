"""Recording sessions: what a secret stands for, and which of a session's calls this proxy has seen."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections import OrderedDict
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from services.proxy.sampling import Sampling
from shared.errors import ConfigError
from shared.events import Purpose
from shared.ids import check_id
from shared.lineage import Lineage

KNOWN_SESSIONS = 4096
"""Sessions whose lineage is kept in memory; a call of one that was put out is recorded with its whole prompt."""


class SessionMeta(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a session is about, as given when it is opened; kept with it in the store.

    Attributes:
        rollout_id: the rollout.
        attempt: counts from 1.
        group_id: its group.
        purpose: train or eval.
        sampling: overrides the configuration's and the harness's.
    """

    rollout_id: str
    attempt: Annotated[int, Meta(ge=1)] = 1
    group_id: str
    purpose: Purpose = "train"
    sampling: Sampling = Sampling()


def read_meta(body: bytes) -> SessionMeta:
    """Session metadata from JSON.

    Raises:
        ConfigError: it is not that, or an id in it is not legal.
    """
    try:
        meta = msgspec.json.decode(body, type=SessionMeta)
    except msgspec.DecodeError as e:
        raise ConfigError(f"not a session: {e}") from None
    check_id(meta.rollout_id, "rollout_id")
    check_id(meta.group_id, "group_id")
    return meta


def secret_of(control_key: str, run_id: str, session_id: str) -> str:
    """A session's secret: the same for the same session, so that opening one twice gives one; 43 characters A-Za-z0-9_-."""
    mac = hmac.new(control_key.encode(), f"{run_id}/{session_id}".encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(mac).rstrip(b"=").decode()


class Origin(NamedTuple):
    """Where a prompt comes from: how sure that is, the parent call's number and the tokens taken over from it."""

    status: Literal["root", "extends", "unresolved"]
    parent_seq: int | None = None
    parent_len: int = 0


class _Session:
    def __init__(self) -> None:
        self.lineage = Lineage()
        self.begun: set[int] = set()


class Book:
    """The calls that this proxy has seen, by session; the sessions used last stay."""

    def __init__(self, size: int = KNOWN_SESSIONS) -> None:
        self._size = size
        self._sessions: OrderedDict[str, _Session] = OrderedDict()

    def begin(self, session_id: str, seq: int) -> None:
        """Notes that a call began here."""
        self._session(session_id).begun.add(seq)

    def origin(self, session_id: str, seq: int, prompt: bytes) -> Origin:
        """What a prompt (packed ids) grew from; unresolved when earlier calls of the session did not come through here."""
        session = self._session(session_id)
        if sum(n < seq for n in session.begun) != seq - 1:
            return Origin("unresolved")
        parent = session.lineage.parent(prompt)
        return Origin("extends", parent.seq, parent.length) if parent else Origin("root")

    def add(self, session_id: str, seq: int, full: bytes) -> None:
        """Makes a recorded call known as a possible parent; `full` is prompt and completion as packed ids."""
        self._session(session_id).lineage.add(seq, full)

    def forget(self, session_id: str) -> None:
        """Drops a session that is over."""
        self._sessions.pop(session_id, None)

    def _session(self, session_id: str) -> _Session:
        session = self._sessions.setdefault(session_id, _Session())
        self._sessions.move_to_end(session_id)
        while len(self._sessions) > self._size:
            self._sessions.popitem(last=False)
        return session
