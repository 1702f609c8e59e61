"""Recording sessions: what a secret stands for."""

from __future__ import annotations

import base64
import hashlib
import hmac
from functools import lru_cache
from typing import Annotated

import msgspec
from msgspec import Meta

from services.proxy.sampling import Sampling
from shared.errors import ConfigError
from shared.events import Purpose
from shared.ids import check_id
from shared.roles import RoleRule


class Own(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the orchestrator would know of a rollout, of one that somebody else's runner launched.

    Attributes:
        group_size: rollouts in the group.
        task: name of the task.
        harness: name of the harness.
    """

    group_size: int
    task: str
    harness: str


class SessionMeta(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a session is about, as given when it is opened; kept with it in the store.

    Attributes:
        rollout_id: the rollout.
        attempt: counts from 1.
        group_id: its group.
        purpose: train or eval.
        sampling: overrides the configuration's and the harness's.
        roles: tell the calls of a harness apart; without a rule that fits, a call is the main agent's.
        own: set where a runner of one's own launched the harness; None for the orchestrator's rollouts.
    """

    rollout_id: str
    attempt: Annotated[int, Meta(ge=1)] = 1
    group_id: str
    purpose: Purpose = "train"
    sampling: Sampling = Sampling()
    roles: list[RoleRule] = []
    own: Own | None = None


_metas = msgspec.json.Decoder(SessionMeta)
_KNOWN_METAS = 4096  # every call of a session brings the same


@lru_cache(_KNOWN_METAS)
def read_meta(body: bytes) -> SessionMeta:
    """Session metadata from JSON.

    Raises:
        ConfigError: it is not that, or an id in it is not legal.
    """
    try:
        meta = _metas.decode(body)
    except msgspec.DecodeError as e:
        raise ConfigError(f"not a session: {e}") from None
    check_id(meta.rollout_id, "rollout_id")
    check_id(meta.group_id, "group_id")
    return meta


def secret_of(control_key: str, run_id: str, session_id: str) -> str:
    """A session's secret: the same for the same session, so that opening one twice gives one; 43 characters A-Za-z0-9_-."""
    mac = hmac.new(control_key.encode(), f"{run_id}/{session_id}".encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(mac).rstrip(b"=").decode()
