"""How large a request may be, and how long it may take to come."""

from __future__ import annotations

import asyncio
import json
from urllib.parse import urlsplit

import pytest

from services.proxy.door import MAX_HEAD
from tests.unit.proxy.wires import ROUTES, Wire, error_of
from tests.unit.proxy.world import MakeWorld, World, body


@pytest.mark.parametrize("api", ROUTES)
async def test_a_body_that_does_not_come_is_408_in_the_words_of_its_api(make_world: MakeWorld, api: str) -> None:
    world = await make_world(read_timeout_s=0.2)
    path = urlsplit(await world.open()).path + ROUTES[api]
    wire = await Wire.to(world.proxy.url)
    await wire.send(f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n".encode())
    for _ in range(3):
        await wire.send(b"{")
    status, content = await wire.answer()
    assert status == 408
    assert "read_timeout_s" in error_of(api, json.loads(content))
    assert (await world.seal())["calls"] == 0


@pytest.mark.parametrize("begun", [b"", b"POST /v1/chat", b"POST / HTTP/1.1\r\nhost: x\r\nx-slow: a"])
async def test_a_head_that_does_not_come_is_408(make_world: MakeWorld, begun: bytes) -> None:
    world = await make_world(read_timeout_s=0.2)
    wire = await Wire.to(world.proxy.url)
    await wire.send(begun)
    assert (await wire.answer())[0] == 408


@pytest.mark.parametrize("start", [b"POST /", b"POST / HTTP/1.1\r\nx-long: ", b"POST / HTTP/1.1\r\n" + b"x-many: y\r\n" * 9])
async def test_a_head_without_end_is_431(world: World, start: bytes) -> None:
    wire = await Wire.to(world.proxy.url)
    await wire.send(start)
    with pytest.raises(ConnectionError):
        await _send_on(wire, (b"x-many: y\r\n" if start.endswith(b"\r\n") else b"x") * 2000)


async def _send_on(wire: Wire, piece: bytes) -> None:
    """Sends a piece again and again, up to many times what is allowed."""
    for _ in range(64 * MAX_HEAD // len(piece)):
        await wire.send(piece)
        await asyncio.sleep(0)


async def test_long_headers_within_the_limit_and_many_requests_on_a_connection_are_served(world: World) -> None:
    base = await world.open()
    for size in (10, 8000, 10):
        url = f"{base}/v1/chat/completions"
        async with world.http.post(url, json=body("hi"), headers={"x-long": "x" * size}) as response:
            assert response.status == 200
    assert len(world.records) == 3
