"""Requests that do not become calls, and are answered in the shape of the API."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator

import pytest

from tests.unit.proxy.world import MakeWorld, World, body, eventually

ODD_CALL = b'{"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}]}'
DEEP = b'{"messages": [{"role": "user", "content": [{"type": "text", "v": ' + b"[" * 5000 + b"]" * 5000 + b"}]}]}"


async def refused(world: World, method: str, url: str, data: bytes = b"{}", **headers: str) -> tuple[int, str]:
    async with world.http.request(method, url, data=data, headers={k.replace("_", "-"): v for k, v in headers.items()}) as r:
        error = json.loads(await r.read())["error"]
        assert {"message", "type", "param", "code"} == set(error)
        return r.status, error["message"]


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("POST", "/run/nonsense/v1/chat/completions", 401), ("POST", "/v1/chat/completions", 401),
        ("GET", "/v1/chat/completions", 405), ("POST", "/run/x/v1/embeddings", 404), ("GET", "/", 404), ("POST", "/run/x", 404),
        ("GET", "/run//v1/nothing", 404),
    ],
)  # fmt: skip
async def test_paths_and_secrets_that_do_not_exist(world: World, method: str, path: str, expected: int) -> None:
    status, message = await refused(world, method, world.proxy.url + path, json.dumps(body("hi")).encode())
    assert status == expected
    assert message
    assert not world.engine.requests


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[1]", b"\xff\xfe", b'{"messages": []}', b'{"messages": [{}], "n": 2}', ODD_CALL, DEEP]
)
async def test_bodies_that_are_no_chat_requests(world: World, data: bytes) -> None:
    base = await world.open()
    status, _ = await refused(world, "POST", f"{base}/v1/chat/completions", data)
    assert status == 400
    assert (await world.seal())["calls"] == 0


async def test_a_body_over_the_limit_is_413(make_world: MakeWorld) -> None:
    world = await make_world(max_body_mb=0.001)
    url = f"{await world.open()}/v1/chat/completions"
    large = json.dumps(body("x" * 2000)).encode()
    assert (await refused(world, "POST", url, large))[0] == 413

    async def chunks() -> AsyncIterator[bytes]:  # without a declared length
        yield large[:900]
        yield large[900:]

    async with world.http.post(url, data=chunks()) as response:
        assert response.status == 413
    assert (await world.chat(await world.open()))[0] == 200


async def test_a_websocket_upgrade_is_426(world: World) -> None:
    url = f"{await world.open()}/v1/chat/completions"
    key = {"sec_websocket_key": "dGhlIHNhbXBsZSBub25jZQ==", "sec_websocket_version": "13"}
    status, _ = await refused(world, "GET", url, b"", connection="Upgrade", upgrade="websocket", **key)
    assert status == 426


async def test_a_call_is_held_while_weights_are_loaded(make_world: MakeWorld) -> None:
    world = await make_world(hold_s=5.0)
    base = await world.open()
    await world.close()
    call = asyncio.create_task(world.chat(base))
    assert not (await asyncio.wait({call}, timeout=0.15))[0]
    assert not world.engine.requests
    await world.reopen(3)
    assert (await call)[0] == 200
    assert world.records[0].weight_version_start == 3


async def test_a_call_that_is_held_for_too_long_is_503_and_no_call(world: World) -> None:
    base = await world.open()
    await world.close()
    async with world.http.post(f"{base}/v1/chat/completions", json=body("hi")) as response:
        assert (response.status, response.headers["retry-after"]) == (503, "1")
        assert "weights" in (await response.json())["error"]["message"]
    assert (await world.seal())["calls"] == 0


async def test_a_client_that_leaves_while_held_is_no_call(make_world: MakeWorld) -> None:
    world = await make_world(hold_s=5.0)
    base = await world.open()
    await world.close()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(world.chat(base), 0.1)
    await eventually(lambda: not world.proxy.serving)
    await world.reopen(1)
    assert (await world.seal())["calls"] == 0
    assert not world.engine.requests


async def test_without_the_store_a_call_is_503(world: World) -> None:
    base = await world.open()
    world.sessions.down = True
    async with world.http.post(f"{base}/v1/chat/completions", json=body("hi")) as response:
        assert (response.status, response.headers["retry-after"]) == (503, "1")
    assert not world.engine.requests


async def test_secrets_are_never_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    base = await world.open()
    world.bus.down = True
    await world.chat(base)
    await world.chat(base + "/oops")
    await world.engine.stop()
    await world.chat(base)
    assert "the bus is down" in caplog.text
    assert base.rpartition("/")[2] not in caplog.text
