"""What happens to state when the server is killed, hangs or is away."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from shared.errors import StoreUnavailable
from shared.store.assembly import Assembly
from shared.store.connect import Login, connect
from shared.store.sessions import Begun, Sessions
from tests.contract.store_kit import ENGINE
from tests.embedded import Server

RUN = "run-1"


async def test_no_acknowledged_write_is_lost_when_the_server_is_killed(mortal_store: Server) -> None:
    await mortal_store.start()
    client = connect(mortal_store.address.url, mortal_store.address.login)
    assembly, sessions = Assembly(client, RUN), Sessions(client, RUN)
    await assembly.epoch.claim("test")
    await assembly.epoch.finish("test")
    await sessions.replicas.restore({ENGINE: 0})
    await sessions.create("r1-a1", "s3cret", b"meta")
    for n in range(1, 101):
        assert (await assembly.put_call("r1-a1", n, f"call {n}".encode())).kind == "new"
        assert isinstance(await sessions.begin("s3cret", "proxy-1"), Begun)
    await sessions.replicas.close(ENGINE, 3)
    await assembly.close_group("g", b"message", await assembly.group("g"))
    mortal_store.kill()
    loading = asyncio.create_task(assembly.load("r1-a1"))  # asked while the server is away
    await mortal_store.start()
    assert (await loading).calls == {n: f"call {n}".encode() for n in range(1, 101)}
    assert await sessions.begin("s3cret", "proxy-1") == "hold"
    assert [body for _, body in await assembly.outbox()] == [b"message"]
    sealed = await sessions.seal("r1-a1", 5)
    assert sealed is not None
    assert sealed.lost == list(range(1, 101))
    await client.aclose()


@pytest.mark.parametrize("trouble", ["dead", "hung"])
async def test_an_operation_ends_in_time_when_the_server_does_not_answer(mortal_store: Server, trouble: str) -> None:
    await mortal_store.start()
    client = connect(mortal_store.address.url, mortal_store.address.login, timeout_s=1)
    sessions = Sessions(client, RUN)
    await sessions.create("r1-a1", "s3cret", b"meta")
    if trouble == "dead":
        mortal_store.kill()
    else:
        os.kill(mortal_store.pid, signal.SIGSTOP)
    started = asyncio.get_running_loop().time()
    with pytest.raises(StoreUnavailable, match="register a call"):
        await sessions.begin("s3cret", "proxy-1")
    assert asyncio.get_running_loop().time() - started < 1.5
    await client.aclose()


async def test_a_wrong_password_is_named(mortal_store: Server) -> None:
    await mortal_store.start()
    client = connect(mortal_store.address.url, Login("proxy", "wrong"), timeout_s=1)
    with pytest.raises(StoreUnavailable, match="password"):
        await Sessions(client, RUN).replicas.version(ENGINE)
    await client.aclose()
