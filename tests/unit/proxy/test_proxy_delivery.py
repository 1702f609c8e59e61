"""Whether a reply reached its harness: clients that leave, that hang up once they have all, that try again."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from services.collector.assemble import assemble
from services.proxy import ledger
from tests.engine.script import Rule, Script
from tests.unit.proxy.test_proxy_calls import TOOLS
from tests.unit.proxy.test_proxy_splice import converse
from tests.unit.proxy.wires import ENDS, ROUTES, Wire, asked, error_event_of, error_of, route
from tests.unit.proxy.world import MakeWorld, World, eventually

log = logging.getLogger(__name__)

SLOW = Rule(text="a long answer that takes its time", token_delay_s=0.02)


@asynccontextmanager
async def streaming(world: World, base: str, api: str, text: str = "hi") -> AsyncIterator[aiohttp.ClientResponse]:
    async with world.http.post(base + route(api, stream=True), json=asked(api, text, stream=True)) as response:
        yield response


async def read_until(response: aiohttp.ClientResponse, mark: bytes) -> bytes:
    """What came of a stream up to a mark; fails if it ends before."""
    seen = b""
    while mark not in seen:
        piece = await response.content.readany()
        assert piece, f"the stream ended: {seen!r}"
        seen += piece
    return seen


async def _read_into(seen: bytearray, response: aiohttp.ClientResponse) -> None:
    async for piece in response.content.iter_any():
        seen += piece


@pytest.mark.parametrize("api", ROUTES)
async def test_the_engine_is_told_at_once_that_a_client_left(world: World, api: str) -> None:
    base = await world.open()
    world.engine.script = Script(rules=[SLOW])
    async with streaming(world, base, api) as response:
        await response.content.readany()
        await eventually(lambda: world.engine.generated >= 3)
        left = time.monotonic()
        response.close()
    await eventually(lambda: bool(world.engine.finished), within_s=1.0)
    log.info("%s: the engine stopped %.0f ms after the client left", api, 1000 * (time.monotonic() - left))
    assert world.engine.finished[0]["finish_reason"] == "abort"
    assert await world.seal() == {"calls": 1, "errored": [], "cut": [1], "lost": []}


@pytest.mark.parametrize("mode", ["record", "splice"])
@pytest.mark.parametrize("api", ROUTES)
async def test_a_client_that_hangs_up_after_the_terminal_event_got_its_reply(
    make_world: MakeWorld, api: str, mode: str
) -> None:
    world = await make_world(mode=mode)
    base = await world.open()
    for _ in range(3):
        wire = await Wire.to(base)
        await wire.post(urlsplit(base).path + route(api, stream=True), asked(api, "hi", stream=True))
        await wire.until(ENDS[api])
        wire.hang_up()
    assert await world.seal() == {"calls": 3, "errored": [], "cut": [], "lost": []}
    assert [r.delivery for r in world.records] == ["sent"] * 3


@pytest.mark.parametrize("mode", ["record", "splice"])
async def test_a_retry_after_a_cut_supersedes_it_and_the_conversation_is_one_row(make_world: MakeWorld, mode: str) -> None:
    world = await make_world(mode=mode)
    base = await world.open()
    world.engine.script = Script(rules=[Rule(calls=[1], text="too slow for this client", token_delay_s=0.02)])
    messages: list[dict[str, Any]] = [{"role": "user", "content": "DO: a"}]
    async with world.stream(base, messages, tools=TOOLS) as response:
        await response.content.readany()
        await eventually(lambda: world.engine.generated >= 5)
        response.close()
    await eventually(lambda: bool(world.records))
    for _ in range(2):
        status, answer = await world.chat(base, messages, tools=TOOLS)
        assert status == 200
        said = answer["choices"][0]["message"]
        messages.append(said | {"content": said["content"] or ""})
        messages += [{"role": "tool", "tool_call_id": c["id"], "content": "ok"} for c in said.get("tool_calls", ())]
    await world.seal()
    assembled = assemble(world.records, world.seals[0], max_row_tokens=10_000)
    assert [(r.seq, r.delivery, r.parent_seq, r.fork) for r in world.records] == [
        (1, "cut", None, ""), (2, "sent", None, ""), (3, "sent", 2, ""),
    ]  # fmt: skip
    assert len(assembled.rows) == 1
    assert sum(assembled.rows[0].response_mask) == sum(len(r.completion) // 4 for r in world.records[1:])


async def test_the_same_prompt_sent_anew_is_a_new_call(world: World) -> None:
    base = await world.open()
    for _ in range(2):
        await converse(world, [base], [{"role": "user", "content": "hi"}], 1)
    assert [(r.seq, r.delivery, r.fork, len(r.completion) > 0) for r in world.records] == [
        (1, "sent", "", True), (2, "sent", "", True),
    ]  # fmt: skip
    assert world.records[0].prompt_digest == world.records[1].prompt_digest


async def test_a_thousand_calls_with_one_prompt_are_a_thousand_records(world: World) -> None:
    base = await world.open()
    turn = asyncio.Semaphore(50)

    async def call() -> int:
        async with turn:
            return (await world.chat(base))[0]

    assert await asyncio.gather(*(call() for _ in range(1000))) == [200] * 1000
    assert await world.seal() == {"calls": 1000, "errored": [], "cut": [], "lost": []}
    assert sorted(r.seq for r in world.records) == list(range(1, 1001))
    assert len({r.prompt_digest for r in world.records}) == 1


@pytest.mark.parametrize("api", ROUTES)
async def test_a_stream_that_is_held_shows_signs_of_life_and_then_its_reply(
    make_world: MakeWorld, api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "SIGN_S", 0.05)
    world = await make_world(hold_s=5.0)
    base = await world.open()
    await world.close()
    async with streaming(world, base, api) as response:
        waiting = await read_until(response, b"\r\n\r\n")
        assert not waiting.strip()
        await world.reopen(7)
        await read_until(response, ENDS[api])
        assert response.status == 200
    assert [(r.weight_version_start, r.delivery) for r in world.records] == [(7, "sent")]


@pytest.mark.parametrize("api", ROUTES)
async def test_what_is_held_for_too_long_ends_in_an_error_of_its_api(
    make_world: MakeWorld, api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "SIGN_S", 0.05)
    world = await make_world(hold_s=0.2)
    base = await world.open()
    await world.close()
    seen = bytearray()
    async with streaming(world, base, api) as response:
        with nullcontext() if api == "gemini" else pytest.raises(aiohttp.ClientPayloadError):
            await _read_into(seen, response)
    if api == "openai.chat":  # its clients would take an error for final
        assert b"error" not in seen
    else:
        assert "proxy.hold_s" in error_event_of(api, bytes(seen))
    assert ENDS[api] not in seen
    async with world.http.post(base + route(api), json=asked(api, "hi")) as response:
        assert (response.status, response.headers["retry-after"]) == (503, "1")
        assert "proxy.hold_s" in error_of(api, json.loads(await response.read()))
    assert (await world.seal())["calls"] == 0
    assert not world.engine.requests
