"""What a secret opens, and that it is found nowhere but where it was sent."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping

import aiohttp
import pytest

from shared.events import encode
from tests.engine.script import Rule, Script
from tests.unit.proxy.wires import ROUTES, asked, error_of, route
from tests.unit.proxy.world import KEY, World, body

CARRIERS = {
    "authorization": "Bearer {}", "x-api-key": "{}", "x-goog-api-key": "{}", "path": "/run/{}", "query": "key={}",
}  # fmt: skip
"""Where harnesses put a key."""


async def ask(world: World, carrier: str, secret: str, api: str, *, stream: bool = False) -> tuple[int, bytes]:
    """A call with its key in one place only."""
    filled = CARRIERS[carrier].format(secret)
    path = (filled if carrier == "path" else "") + route(api, stream=stream)
    query = f"{'&' if '?' in path else '?'}{filled}" if carrier == "query" else ""
    headers: Mapping[str, str] = {} if carrier in ("path", "query") else {carrier: filled}
    async with world.http.post(
        world.proxy.url + path + query, json=asked(api, "hi", stream=stream), headers=headers
    ) as response:
        return response.status, await response.read()


async def secret_of(world: World, session_id: str) -> str:
    return (await world.open(session_id)).rpartition("/")[2]


@pytest.mark.parametrize("carrier", CARRIERS)
async def test_a_secret_is_in_no_log_no_record_and_no_tap(world: World, carrier: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    taps: list[bytes] = []
    tapping = asyncio.create_task(_tap(world, taps))
    secret = await secret_of(world, "r1-a1")
    for api in ROUTES:
        for stream in (False, True):
            assert (await ask(world, carrier, secret, api, stream=stream))[0] == 200
    world.engine.script = Script(rules=[Rule(status=500)])
    assert (await ask(world, carrier, secret, "openai.chat"))[0] == 502
    world.engine.script = Script(rules=[Rule(spoil="no_prompt_ids")])
    assert (await ask(world, carrier, secret, "openai.chat"))[0] == 502
    await world.seal()
    assert (await ask(world, carrier, secret, "openai.chat"))[0] == 403
    await world.bus.close()
    await tapping
    kept = [encode(m) for m in world.bus.messages()]
    assert len(world.records) == 2 * len(ROUTES)
    assert len(taps) >= len(kept) > 0
    for place in (caplog.text.encode(), *kept, *taps, *(json.dumps(r).encode() for r in world.engine.requests)):
        assert secret.encode() not in place
        assert KEY.encode() not in place


async def _tap(world: World, seen: list[bytes]) -> None:
    async for tapped in world.bus.tap(">"):
        seen.append(repr(tapped).encode())


@pytest.mark.parametrize("carrier", CARRIERS)
async def test_a_secret_opens_its_own_rollout_only_and_only_while_it_lives(world: World, carrier: str) -> None:
    one, other = await secret_of(world, "r1-a1"), await secret_of(world, "r2-a1")
    assert (await ask(world, carrier, one, "anthropic.messages"))[0] == 200
    assert [r.session_id for r in world.records] == ["r1-a1"]
    await world.seal("r1-a1")
    for api in ROUTES:
        status, answer = await ask(world, carrier, one, api)
        assert status == 403
        assert "sealed" in error_of(api, json.loads(answer))
        for wrong in (one[:-1], one.swapcase(), "r2-a1", KEY, "x" * 4000):
            status, answer = await ask(world, carrier, wrong, api)
            assert status == 401
            assert error_of(api, json.loads(answer))
    assert (await ask(world, carrier, other, "gemini"))[0] == 200
    assert [r.session_id for r in world.records] == ["r1-a1", "r2-a1"]


async def test_counting_needs_a_secret_too(world: World) -> None:
    base = await world.open()
    await world.seal()
    for path, api in (("/v1/messages/count_tokens", "anthropic.messages"), ("/v1beta/models/m:countTokens", "gemini")):
        for start, expected in ((base, 403), (f"{world.proxy.url}/run/none", 401)):
            async with world.http.post(start + path, json=asked(api, "hi")) as response:
                assert response.status == expected


@pytest.mark.parametrize("method", ["PUT", "POST"])
@pytest.mark.parametrize("path", ["/control/sessions/r9-a1", "/control/sessions/r1-a1/seal"])
async def test_a_rollouts_secret_opens_no_control_route(world: World, path: str, method: str) -> None:
    secret = await secret_of(world, "r1-a1")
    for headers in ({"authorization": f"Bearer {secret}"}, {"x-api-key": secret}, {"authorization": f"Bearer {KEY}x"}, {}):
        async with world.http.request(method, world.proxy.control_url + path, json={}, headers=headers) as response:
            assert response.status in (401, 405)
    for hidden in (f"/run/{secret}{path}", f"/run/{secret}/..{path}"):
        async with world.http.request(method, world.proxy.url + hidden, json={}) as response:
            assert response.status in (401, 404, 405)
    assert not world.seals
    assert (await world.chat(f"{world.proxy.url}/run/{secret}"))[0] == 200


async def test_a_reply_never_comes_back_under_another_secret(world: World) -> None:
    """Two rollouts over one connection, by turns."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1)) as http:
        bases = [await world.open(f"r{n}-a1") for n in (1, 2)]
        for base in bases * 3:
            async with http.post(f"{base}/v1/chat/completions", json=body("hi")) as response:
                assert response.status == 200
                await response.read()
    assert [r.session_id for r in world.records] == ["r1-a1", "r2-a1"] * 3
