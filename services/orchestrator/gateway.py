"""The proxy's control routes: a recording session is opened for every attempt, and sealed when it ended."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import aiohttp
import msgspec
from tenacity import AsyncRetrying, before_sleep_log, retry_if_exception_type, stop_after_delay, wait_exponential_jitter

from services.orchestrator.state import Rollout, Sealed
from shared.config import ProxyConfig
from shared.errors import ConfigError, EngineError, FidelityError
from shared.ids import session_id
from shared.roles import RoleRule

log = logging.getLogger(__name__)

PATIENCE_S = 60.0
"""How long the proxy may be away (it restarts) before an attempt is given up."""
REQUEST_S = 30.0
T = TypeVar("T")


class _Opened(msgspec.Struct):
    path: str
    secret: str


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where an attempt's model calls go: base URL without an API's own path, and the secret, which also serves as API key."""

    base_url: str
    key: str


class _Away(Exception):
    """The proxy, or something that it needs, is not there at the moment."""


class Gateway:
    """A client of the control routes.

    Args:
        config: the proxy's address.
        control_key: opens the routes.
        patience_s: how long to go on trying.
    """

    def __init__(self, config: ProxyConfig, control_key: str, patience_s: float = PATIENCE_S) -> None:
        self._models = f"http://{config.host}:{config.port}"
        self._url = f"http://{config.host}:{config.control_port}"
        self._key = control_key
        self._patience_s = patience_s
        self._http: aiohttp.ClientSession | None = None

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
        opened = await self._call("PUT", _session(rollout), _Opened, meta)
        return Endpoint(self._models + opened.path, opened.secret)

    async def seal(self, rollout: Rollout) -> Sealed:
        """Seals the session of the current attempt and tells its calls; doing it again gives the same answer.

        Raises:
            EngineError: the proxy did not answer in time.
            FidelityError: it does not know the session.
            ConfigError: it refused the key.
        """
        return await self._call("POST", f"{_session(rollout)}/seal", Sealed)

    async def close(self) -> None:
        """Ends the connections."""
        if self._http:
            await self._http.close()

    async def _call(self, method: str, path: str, answer: type[T], body: dict[str, Any] | None = None) -> T:
        retrying = AsyncRetrying(
            stop=stop_after_delay(self._patience_s), wait=wait_exponential_jitter(0.05, 2.0, jitter=0.05),
            retry=retry_if_exception_type((_Away, aiohttp.ClientError, TimeoutError)),
            before_sleep=before_sleep_log(log, logging.INFO), reraise=True,
        )  # fmt: skip
        try:
            return msgspec.json.decode(await retrying(self._once, method, path, body), type=answer)
        except (_Away, aiohttp.ClientError, TimeoutError) as e:
            reason = str(e) or type(e).__name__
            raise EngineError(f"the proxy at {self._url} did not answer for {self._patience_s:g} s: {reason}") from e
        except msgspec.DecodeError as e:
            raise ConfigError(f"{self._url} does not answer like the proxy: {e}") from e

    async def _once(self, method: str, path: str, body: dict[str, Any] | None) -> bytes:
        async with self._client().request(method, f"{self._url}/control/sessions/{path}", json=body) as response:
            content = await response.read()
            if response.status >= 500:
                raise _Away(f"HTTP {response.status}")
            if response.status in (404, 409):
                raise FidelityError(f"the proxy turned session {path} down: {_detail(content)}")
            if response.status >= 400:
                raise ConfigError(f"the proxy refused: HTTP {response.status}: {_detail(content)}")
            return content

    def _client(self) -> aiohttp.ClientSession:
        if self._http is None:
            self._http = aiohttp.ClientSession(
                headers={"Authorization": f"Bearer {self._key}"}, timeout=aiohttp.ClientTimeout(total=REQUEST_S),
                connector=aiohttp.TCPConnector(limit=64),
            )  # fmt: skip
        return self._http


def _session(rollout: Rollout) -> str:
    return session_id(rollout.start.rollout_id, rollout.attempt)


def _detail(content: bytes) -> str:
    return content[:300].decode(errors="replace")
