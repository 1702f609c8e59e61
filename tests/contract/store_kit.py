"""What the store's contract tests share: where the store is, and runs of their own in it."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import fakeredis
import pytest

from shared.store.assembly import Assembly
from shared.store.connect import Client, connect
from shared.store.sessions import Begun, Sessions
from tests.embedded import Address

ENGINE = "http://engine:1"


@pytest.fixture(params=["memory", "embedded", "container"])
def address(request: pytest.FixtureRequest) -> Address | None:
    """Where the store is; None for the twin."""
    fixture = {"memory": None, "embedded": "store_server", "container": "redis_container"}[request.param]
    return request.getfixturevalue(fixture) if fixture else None


@pytest.fixture
async def client(address: Address | None) -> AsyncIterator[Client]:
    client = fakeredis.FakeAsyncRedis() if address is None else connect(address.url, address.secret)
    yield client
    await client.aclose()


def new_run() -> str:
    return f"run-{uuid.uuid4().hex[:12]}"


async def new_sessions(client: Client) -> Sessions:
    """Those of a run with one engine, which takes calls."""
    made = Sessions(client, new_run())
    await made.replicas.restore({ENGINE: 0})
    return made


async def new_assembly(client: Client, run_id: str = "", ttl_s: float = 3600.0) -> Assembly:
    """That of a run whose state is there."""
    made = Assembly(client, run_id or new_run(), ttl_s)
    await made.epoch.claim("test")
    await made.epoch.finish("test")
    return made


@pytest.fixture
async def sessions(client: Client) -> Sessions:
    return await new_sessions(client)


@pytest.fixture
async def assembly(client: Client) -> Assembly:
    return await new_assembly(client)


async def begun(sessions: Sessions, secret: str = "s3cret", proxy: str = "proxy-1") -> Begun:
    reply = await sessions.begin(secret, proxy)
    assert isinstance(reply, Begun)
    return reply
