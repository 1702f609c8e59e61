"""What a runner of one's own sends to the control routes, and what it is answered."""

from __future__ import annotations

import secrets
from math import isfinite
from typing import Annotated

import msgspec
from msgspec import Meta

from services.proxy.sampling import Sampling
from services.proxy.sessions import Own, SessionMeta
from shared.errors import ConfigError
from shared.events import Purpose
from shared.ids import check_id
from shared.roles import RoleRule


class Wanted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of a request for a session.

    Attributes:
        rollout_id: empty makes one; with one, asking again gives the same session.
        group_id: of the rollouts that share a baseline; empty makes one.
        group_size: rollouts in the group; the same in all of them.
        task: name of the task.
        harness: name of the harness.
        purpose: None trains groups of two and more, and scores a rollout that is alone: it has no baseline.
        sampling: overrides the configuration's and the harness's.
        roles: tell the calls of the harness apart.
    """

    rollout_id: str = ""
    group_id: str = ""
    group_size: Annotated[int, Meta(ge=1)] = 1
    task: Annotated[str, Meta(min_length=1, max_length=200)]
    harness: Annotated[str, Meta(min_length=1, max_length=200)]
    purpose: Purpose | None = None
    sampling: Sampling = Sampling()
    roles: list[RoleRule] = []


class Created(msgspec.Struct, frozen=True, kw_only=True):
    """A session and how to reach it.

    Attributes:
        secret: opens it; it is part of the base URLs.
        base_url: for clients that add the version of the API themselves, as Anthropic's and Gemini's do.
        base_url_v1: for those that do not, as OpenAI's.
        key: API key; it opens the session on the bare paths (`/v1/...`) too.
        env: the same as environment variables that harnesses read.
    """

    session_id: str
    rollout_id: str
    group_id: str
    secret: str
    base_url: str
    base_url_v1: str
    key: str
    env: dict[str, str]


class Reward(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body that sets a reward; the answer to it has the same shape."""

    reward: float

    def __post_init__(self) -> None:
        """Checks what types cannot say; msgspec turns a ValueError into its ValidationError."""
        if not isfinite(self.reward):
            raise ValueError(f"a reward is a finite number, not {self.reward}")


class Closed(msgspec.Struct, frozen=True, kw_only=True):
    """How a session ended: its reward, None without one, and what became of its calls (as `Seal`)."""

    session_id: str
    reward: float | None
    calls: int
    errored: list[int]
    cut: list[int]
    lost: list[int]


_wanted = msgspec.json.Decoder(Wanted)
_rewards = msgspec.json.Decoder(Reward)


def read_wanted(body: bytes) -> tuple[SessionMeta, Own]:
    """The session that is asked for, with the ids that were left out.

    Raises:
        ConfigError: the body is not acceptable.
    """
    try:
        wanted = _wanted.decode(body)
    except msgspec.DecodeError as e:
        raise ConfigError(f'not a session: {e}; the least is {{"task": "NAME", "harness": "NAME"}}') from None
    purpose = wanted.purpose or ("train" if wanted.group_size > 1 else "eval")
    if purpose == "train" and wanted.group_size < 2:
        raise ConfigError(
            "a rollout that is alone has no baseline to learn from: give group_id and group_size (2 or more), "
            'or leave out "purpose" to have it scored'
        )
    rollout_id = check_id(wanted.rollout_id or f"own-{secrets.token_hex(6)}", "rollout_id")
    group_id = check_id(wanted.group_id or f"{rollout_id}-g", "group_id")
    own = Own(group_size=wanted.group_size, task=wanted.task, harness=wanted.harness)
    meta = SessionMeta(
        rollout_id=rollout_id, group_id=group_id, purpose=purpose, sampling=wanted.sampling, roles=wanted.roles, own=own
    )
    return meta, own


def read_reward(body: bytes) -> float:
    """The reward that is set.

    Raises:
        ConfigError: the body is not acceptable.
    """
    try:
        return _rewards.decode(body).reward
    except msgspec.DecodeError as e:
        raise ConfigError(f'not a reward: {e}; send {{"reward": 1.0}}') from None


def created(session_id: str, meta: SessionMeta, secret: str, root: str) -> Created:
    """The answer to a request for a session.

    Args:
        session_id: of the session.
        meta: of the session.
        secret: opens it.
        root: URL of the proxy as the runner sees it, without a slash at its end.
    """
    base = f"{root}/run/{secret}"
    env = {
        "OPENAI_BASE_URL": f"{base}/v1", "OPENAI_API_KEY": secret,
        "ANTHROPIC_BASE_URL": base, "ANTHROPIC_API_KEY": secret,
        "GOOGLE_GEMINI_BASE_URL": base, "GEMINI_API_KEY": secret,
    }  # fmt: skip
    return Created(
        session_id=session_id, rollout_id=meta.rollout_id, group_id=meta.group_id, secret=secret,
        base_url=base, base_url_v1=f"{base}/v1", key=secret, env=env,
    )  # fmt: skip
