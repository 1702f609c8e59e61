"""The engine's HTTP client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from services.proxy.errors import EngineRefused, broken, unavailable

# vLLM's server closes a connection that idled for 5 s; one that is kept longer here would break under a request now and then.
_KEEPALIVE_S = 2.0
_CONNECT_S = 5.0


class Engine:
    """One vLLM server.

    Args:
        url: its base URL.
        timeout_s: how long one call may take.
    """

    def __init__(self, url: str, timeout_s: float) -> None:
        self.url = url.rstrip("/")
        self._timeout_s = timeout_s
        self._http: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        """Opens the client; connections are made as calls need them, without a limit (the engine queues)."""
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEPALIVE_S),
            timeout=aiohttp.ClientTimeout(total=self._timeout_s, sock_connect=_CONNECT_S),
            headers={"content-type": "application/json", "accept-encoding": "identity"},
        )

    async def stop(self) -> None:
        """Closes all connections."""
        if self._http is not None:
            await self._http.close()

    @asynccontextmanager
    async def chat(self, body: bytes) -> AsyncIterator[aiohttp.StreamReader]:
        """Sends a chat request and gives its reply's bytes as they come. Leaving the context early drops the connection,
        at which the engine stops sampling.

        Raises:
            EngineRefused: 4xx.
            Refused: 502 or 503, the engine failed, is not there, broke off, or took longer than it may.
        """
        assert self._http is not None, "call start() first"
        try:
            async with self._http.post(f"{self.url}/v1/chat/completions", data=body, allow_redirects=False) as response:
                try:
                    await _check(response)
                    yield response.content
                finally:
                    response.close()
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
            raise unavailable(f"the engine at {self.url} cannot be reached") from None
        except TimeoutError:
            raise unavailable(f"the engine took longer than {self._timeout_s:g} s (proxy.call_timeout_s)") from None
        except aiohttp.ClientError as e:
            raise broken(f"the connection to the engine broke: {type(e).__name__}") from None

    async def healthy(self) -> bool:
        """Whether the engine says that it can serve."""
        assert self._http is not None, "call start() first"
        try:
            async with self._http.get(f"{self.url}/health", timeout=aiohttp.ClientTimeout(total=_CONNECT_S)) as response:
                return response.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False


async def _check(response: aiohttp.ClientResponse) -> None:
    if response.status == 200:
        return
    body = await response.read()
    if 400 <= response.status < 500:
        raise EngineRefused(response.status, response.headers.get("content-type", "application/json"), body)
    message = f"the engine answered {response.status}: {body[:200].decode(errors='replace')}"
    raise unavailable(message) if response.status == 503 else broken(message)
