"""Clients of the store, with timeouts and retries, and what is common to the modules that use them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import redis.asyncio as redis
from redis.exceptions import NoPermissionError, NoScriptError, RedisError

from shared.config import TlsConfig
from shared.errors import ConfigError, StoreRefused, StoreUnavailable
from shared.keys import PASSWORD, secret_of
from shared.store.line import Line, Login
from shared.tls import check_scheme, context_of

__all__ = ["Client", "Keys", "Login", "connect", "fields", "login_of", "raw", "store_errors", "text"]

Client = redis.Redis


class Script:
    """A script that the store runs, known to it by its digest; redis-py's takes a call of the gateway twice as long."""

    def __init__(self, line: Line, source: str) -> None:
        self._line, self._source = line, source
        self._digest = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()

    async def __call__(self, keys: Sequence[Any] = (), args: Sequence[Any] = ()) -> Any:
        """What it returns. Its text is sent where the store does not know it."""
        try:
            return await self._line.run("EVALSHA", self._digest, len(keys), *keys, *args)
        except NoScriptError:
            await self._line.run("SCRIPT LOAD", self._source)
            return await self._line.run("EVALSHA", self._digest, len(keys), *keys, *args)


class _Client(redis.Redis):
    """redis-py's commands, over a connection of our own."""

    line: Line

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        reply = await self.line.run(*args)
        options.pop("keys", None)  # they are for redis-py's cache
        read = self.response_callbacks.get(args[0])
        return reply if read is None else read(reply, **options)

    def register_script(self, script: Any) -> Any:
        return Script(self.line, script)

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        self.line.close()
        await super().aclose(close_connection_pool)


def connect(url: str, login: Login | None = None, timeout_s: float = 5.0, tls: TlsConfig | None = None) -> Client:
    """A client that retries while the server restarts (a restarted one answers before it has loaded its data).

    Args:
        url: `redis://host:port/db`, or `rediss` for TLS.
        login: user and password, if the server wants them.
        timeout_s: how long one operation may take in all.
        tls: how the server is known, where it is reached by TLS.

    Raises:
        ConfigError: a file of the certificates cannot be read, or they are set without TLS; or the URL holds a password.
    """
    tls = tls or TlsConfig()
    if "@" in urlsplit(url).netloc:
        raise ConfigError("store.url has a name or a password in it; set store.keys to a folder with passwords instead")
    check_scheme(tls, url, "rediss", "store")
    context = context_of(tls, "store.tls") if url.startswith("rediss://") else None
    client = _Client.from_url(url, protocol=2)
    assert isinstance(client, _Client)
    client.line = Line(url, login, timeout_s, context)
    return client


def login_of(folder: str, user: str) -> Login | None:
    """How a user gets in, by its file in a folder of keys; None where no folder is set.

    Raises:
        ConfigError: the file cannot be read.
    """
    return Login(user, secret_of(folder, user, PASSWORD)) if folder else None


class store_errors:
    """Turns the client's errors into `StoreUnavailable`, or `StoreRefused`, naming what was being done."""

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        """Nothing: a generator would cost each command of the store as much as its parsing."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, TimeoutError):
            raise StoreUnavailable(f"the store failed to {self._what}: no answer in time; is the server up?") from error
        if isinstance(error, NoPermissionError):
            raise StoreRefused(
                f"the store refused to {self._what}: {error}; it was given the password of somebody else, or has an older list "
                "of users (`openforge keys make` writes a new one)"
            ) from error
        if isinstance(error, RedisError):
            raise StoreUnavailable(f"the store failed to {self._what}: {error}") from error


class Keys:
    """Key names of one run. The braces make a hash tag: all keys of a run live on one node of a cluster."""

    def __init__(self, run_id: str) -> None:
        self._prefix = f"of:{{{run_id}}}:"

    def __call__(self, *parts: object) -> str:
        return self._prefix + ":".join(str(p) for p in parts)


def text(value: Any) -> str:
    """A reply of the store as text."""
    return value.decode() if isinstance(value, bytes) else str(value)


def raw(value: Any) -> bytes | None:
    """A reply of the store as bytes, None where it holds nothing. The client never decodes, though its types allow for it."""
    return None if value is None else bytes(value)


def fields(reply: Any) -> dict[str, bytes]:
    """A hash of the store, its field names as text."""
    return {text(name): bytes(value) for name, value in reply.items()}
