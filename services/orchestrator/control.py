"""Requests to the proxy's control routes, repeated while it is away."""

from __future__ import annotations

import logging
from typing import TypeVar

import aiohttp
import msgspec
from tenacity import AsyncRetrying, before_sleep_log, retry_if_exception_type, stop_after_delay, wait_exponential_jitter

from shared.config import ProxyConfig
from shared.errors import ConfigError, EngineError, FidelityError

log = logging.getLogger(__name__)

PATIENCE_S = 60.0
"""How long the proxy may be away (it restarts) before an attempt is given up."""
REQUEST_S = 30.0
T = TypeVar("T")


class _Away(Exception):
    """The proxy, or something that it needs, is not there at the moment."""


class ControlRoutes:
    """A client of the control routes.

    Args:
        config: the proxy's address.
        control_key: opens the routes.
        patience_s: how long to go on trying.
    """

    def __init__(self, config: ProxyConfig, control_key: str, patience_s: float = PATIENCE_S) -> None:
        self._url = f"http://{config.host}:{config.control_port}"
        self._key = control_key
        self._patience_s = patience_s
        self._http: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Ends the connections."""
        if self._http:
            await self._http.close()

    async def call(self, method: str, path: str, answer: type[T], body: bytes | None = None) -> T:
        """The answer to a request for a path below /control/. Raises as `fetch` does."""
        try:
            return msgspec.json.decode(await self.fetch(method, path, body), type=answer)
        except msgspec.DecodeError as e:
            raise ConfigError(f"{self._url} does not answer like the proxy: {e}") from e

    async def fetch(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """The body of the answer to a request for a path below /control/.

        Raises:
            EngineError: the proxy did not answer in time.
            FidelityError: what was asked for is not there, or not in that state.
            ConfigError: the proxy refused the key, or the body.
        """
        retrying = AsyncRetrying(
            stop=stop_after_delay(self._patience_s), wait=wait_exponential_jitter(0.05, 2.0, jitter=0.05),
            retry=retry_if_exception_type((_Away, aiohttp.ClientError, TimeoutError)),
            before_sleep=before_sleep_log(log, logging.INFO), reraise=True,
        )  # fmt: skip
        try:
            return await retrying(self._once, method, path, body)
        except (_Away, aiohttp.ClientError, TimeoutError) as e:
            reason = str(e) or type(e).__name__
            raise EngineError(f"the proxy at {self._url} did not answer for {self._patience_s:g} s: {reason}") from e

    async def _once(self, method: str, path: str, body: bytes | None) -> bytes:
        async with self._client().request(method, f"{self._url}/control/{path}", data=body) as response:
            content = await response.read()
            if response.status >= 500:
                raise _Away(f"HTTP {response.status}")
            if response.status in (404, 409):
                raise FidelityError(f"the proxy turned {path} down: {_detail(content)}")
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


def _detail(content: bytes) -> str:
    return content[:300].decode(errors="replace")
