"""What the store's contract tests share: where the store is, and runs of their own in it."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import fakeredis
import pytest

from shared.keys import COLLECTOR, OPERATOR, PROXY
from shared.store.assembly import Assembly
from shared.store.connect import Client, connect, login_of
from shared.store.sessions import Begun, Sessions
from tests.embedded import Address

ENGINE = "http://engine:1"


@pytest.fixture(params=["memory", "embedded", "container"])
def address(request: pytest.FixtureRequest) -> Address | None:
    """Where the store is; None for the twin."""
    fixture = {"memory": None, "embedded": "store_server", "container": "redis_container"}[request.param]
    return request.getfixturevalue(fixture) if fixture else None


class Door:
    """Clients of one store, each with the rights of a user."""

    def __init__(self, address: Address | None) -> None:
        self._address, self._twin = address, fakeredis.FakeServer()
        self._opened: list[Client] = []

    def open(self, user: str) -> Client:
        """A client of a user; the twin lets everybody do everything."""
        if self._address is None:
            self._opened.append(fakeredis.FakeAsyncRedis(server=self._twin))
        else:
            self._opened.append(connect(self._address.url, login_of(self._address.keys, user)))
        return self._opened[-1]

    async def close(self) -> None:
        """Closes them all."""
        for client in self._opened:
            await client.aclose()


@pytest.fixture
async def door(address: Address | None) -> AsyncIterator[Door]:
    made = Door(address)
    yield made
    await made.close()


@pytest.fixture
def client(door: Door) -> Client:
    """One that may do everything."""
    return door.open(OPERATOR)


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
async def sessions(door: Door) -> Sessions:
    """With the proxy's rights."""
    return await new_sessions(door.open(PROXY))


@pytest.fixture
async def assembly(door: Door) -> Assembly:
    """With the collector's rights."""
    return await new_assembly(door.open(COLLECTOR))


async def begun(sessions: Sessions, secret: str = "s3cret", proxy: str = "proxy-1") -> Begun:
    reply = await sessions.begin(secret, proxy)
    assert isinstance(reply, Begun)
    return reply
