"""The proxy's control routes: a recording session is opened for every attempt, and sealed when it ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from services.orchestrator.control import PATIENCE_S, ControlRoutes
from services.orchestrator.state import Rollout, Sealed
from shared.config import ProxyConfig
from shared.ids import session_id
from shared.roles import RoleRule


class _Opened(msgspec.Struct):
    path: str
    secret: str


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where an attempt's model calls go: base URL without an API's own path, and the secret, which also serves as API key."""

    base_url: str
    key: str


NOWHERE = Endpoint("http://127.0.0.1:9/no-model", "none")
"""Of what calls no model."""


class Sessions(Protocol):
    """What an attempt needs of whatever records its calls; `Gateway` says more."""

    async def open(self, rollout: Rollout, roles: Sequence[RoleRule] = ()) -> Endpoint:
        """Opens the session of the current attempt."""
        ...

    async def seal(self, rollout: Rollout) -> Sealed:
        """Seals it and tells its calls."""
        ...

    async def close(self) -> None:
        """Ends the connections."""
        ...


class Gateway:
    """A client of the control routes.

    Args:
        config: the proxy's address.
        control_key: opens the routes.
        patience_s: how long to go on trying.
    """

    def __init__(self, config: ProxyConfig, control_key: str, patience_s: float = PATIENCE_S) -> None:
        self._models = f"http://{config.host}:{config.port}"
        self._routes = ControlRoutes(config, control_key, patience_s)

    async def open(self, rollout: Rollout, roles: Sequence[RoleRule] = ()) -> Endpoint:
        """Opens the session of the current attempt; doing it again changes nothing.

        Args:
            rollout: where it stands.
            roles: tell the harness's calls apart.

        Raises:
            EngineError: the proxy did not answer in time.
            FidelityError: the session was sealed already.
            ConfigError: the proxy refused the key or the sampling parameters.
        """
        start = rollout.start
        meta = {
            "rollout_id": start.rollout_id, "attempt": rollout.attempt, "group_id": start.group_id,
            "purpose": start.purpose, "sampling": start.sampling, "roles": msgspec.to_builtins(roles),
        }  # fmt: skip
        opened = await self._routes.call("PUT", _session(rollout), _Opened, msgspec.json.encode(meta))
        return Endpoint(self._models + opened.path, opened.secret)

    async def seal(self, rollout: Rollout) -> Sealed:
        """Seals the session of the current attempt and tells its calls; doing it again gives the same answer.

        Raises:
            EngineError: the proxy did not answer in time.
            FidelityError: it does not know the session.
            ConfigError: it refused the key.
        """
        return await self._routes.call("POST", f"{_session(rollout)}/seal", Sealed)

    async def close(self) -> None:
        """Ends the connections."""
        await self._routes.close()


class NoSessions:
    """In the place of the proxy where there is none: agents that call no model have nothing to be recorded."""

    async def open(self, rollout: Rollout, roles: Sequence[RoleRule] = ()) -> Endpoint:
        """See `Sessions.open`."""
        return NOWHERE

    async def seal(self, rollout: Rollout) -> Sealed:
        """See `Sessions.seal`."""
        return Sealed(0)

    async def close(self) -> None:
        """See `Sessions.close`."""


def _session(rollout: Rollout) -> str:
    return f"sessions/{session_id(rollout.start.rollout_id, rollout.attempt)}"
