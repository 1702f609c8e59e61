"""The store's connection: many commands on their way at once, and each gets its own reply."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from redis.exceptions import ResponseError

from shared.store.connect import Client, connect
from tests.embedded import Address


@pytest.fixture
async def client(store_server: Address) -> AsyncIterator[Client]:
    client = connect(store_server.url.removesuffix("/0") + "/5", store_server.login)
    await client.flushdb()
    yield client
    await client.aclose()


async def test_commands_that_are_under_way_together_get_a_reply_each(client: Client) -> None:
    await asyncio.gather(*(client.set(f"k{n}", f"v{n}") for n in range(200)))
    replies = await asyncio.gather(*(client.get(f"k{n}") for n in range(200)))
    assert replies == [f"v{n}".encode() for n in range(200)]


async def test_a_command_that_was_given_up_takes_nobody_elses_reply(client: Client) -> None:
    await client.set("large", b"x" * 5_000_000)
    await client.set("small", b"y")
    asked = asyncio.ensure_future(client.get("large"))
    await asyncio.sleep(0)
    asked.cancel()
    assert await client.get("small") == b"y"
    assert len(await client.get("large") or b"") == 5_000_000


async def test_a_refusal_is_of_the_command_that_caused_it(client: Client) -> None:
    await client.set("text", "t")
    replies = await asyncio.gather(client.get("text"), client.incr("text"), client.get("text"), return_exceptions=True)
    assert replies[0] == replies[2] == b"t"
    assert isinstance(replies[1], ResponseError)


async def test_scripts_that_the_server_forgot_are_sent_again(client: Client) -> None:
    script = client.register_script("return ARGV[1]")
    for _ in range(2):
        assert await script(args=["a"]) == b"a"
        await client.script_flush()
