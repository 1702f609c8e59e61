"""Clients of the store, with timeouts and retries, and what is common to the modules that use them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis.asyncio as redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff
from redis.exceptions import BusyLoadingError, ConnectionError, RedisError
from redis.exceptions import TimeoutError as RedisTimeout

from shared.errors import StoreUnavailable

Client = redis.Redis


class _Bounded(redis.Redis):
    """A client whose operations end in time, whatever their inner retries (of connecting, of sending) add up to."""

    timeout_s: float

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        async with asyncio.timeout(self.timeout_s):
            return await super().execute_command(*args, **options)  # type: ignore[no-untyped-call]


def connect(url: str, password: str | None = None, timeout_s: float = 5.0) -> Client:
    """A client that retries while the server restarts (a restarted one answers before it has loaded its data).

    Args:
        url: `redis://host:port/db`.
        password: of the server, if it has one.
        timeout_s: how long one operation may take in all.
    """
    client = _Bounded.from_url(
        url,
        password=password,
        socket_timeout=None,  # the client's own timeouts, one a write and one a read, cost as much as the command itself
        socket_connect_timeout=timeout_s,
        retry=Retry(ExponentialBackoff(cap=0.5, base=0.02), retries=max(3, int(timeout_s / 0.4))),
        retry_on_error=[ConnectionError, RedisTimeout, BusyLoadingError],
        health_check_interval=15,
    )
    assert isinstance(client, _Bounded)
    client.timeout_s = timeout_s
    return client


@contextmanager
def store_errors(what: str) -> Iterator[None]:
    """Turns the client's errors into `StoreUnavailable`, naming what was being done."""
    try:
        yield
    except TimeoutError as e:
        raise StoreUnavailable(f"the store failed to {what}: no answer in time; is the server up?") from e
    except RedisError as e:
        raise StoreUnavailable(f"the store failed to {what}: {e}") from e


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
