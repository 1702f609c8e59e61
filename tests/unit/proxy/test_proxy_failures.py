"""Calls that go wrong after they began: each leaves a record, a note, or an open intent that counts as lost."""

from __future__ import annotations

import asyncio
import json
from urllib.parse import urlsplit

import aiohttp
import pytest

from shared.packing import unpack_ids
from tests.engine.script import Rule, Script
from tests.unit.proxy.wires import ENDS, ROUTES, Wire, asked, route
from tests.unit.proxy.world import MakeWorld, World, body, eventually

SLOW = Rule(text="a long answer that takes its time", token_delay_s=0.02)


async def read_tokens(response: aiohttp.ClientResponse, count: int) -> bytes:
    """Reads a stream until so many events with tokens came."""
    seen = b""
    while seen.count(b'"token_ids"') < count + 1:  # the first event has prompt_token_ids only
        seen += await response.content.readline()
        if seen.count(b'"token_ids"') >= count:
            break
    return seen


async def broken_stream(world: World, base: str) -> bytes:
    """What came of a stream that must break off."""
    seen = b""
    async with world.stream(base) as response:
        try:
            async for piece in response.content.iter_any():
                seen += piece
        except aiohttp.ClientPayloadError:
            return seen
    raise AssertionError(f"the stream ended as if it were whole: {seen!r}")


async def test_a_client_that_leaves_mid_stream_is_cut_and_the_engine_stopped(world: World) -> None:
    base = await world.open()
    world.engine.script = Script(rules=[SLOW])
    async with world.stream(base) as response:
        await read_tokens(response, 3)
        response.close()
    await eventually(lambda: bool(world.engine.finished), within_s=0.1)
    assert world.engine.finished[0]["finish_reason"] == "abort"
    await eventually(lambda: bool(world.records))
    [record] = world.records
    sampled = unpack_ids(record.completion)
    assert record.delivery == "cut"
    assert record.finish_reason is None
    assert len(sampled) >= 3
    assert world.engine.finished[0]["token_ids"][: len(sampled)] == sampled
    assert await world.seal() == {"calls": 1, "errored": [], "cut": [1], "lost": []}


async def test_the_call_after_a_cut_one_may_extend_it(world: World) -> None:
    base = await world.open()
    world.engine.script = Script(rules=[Rule(calls=[1], text="abcdef", token_delay_s=0.02)])
    async with world.stream(base) as response:
        await read_tokens(response, 2)
    await eventually(lambda: bool(world.records))
    said = world.records[0].reply
    await world.chat(base, [{"role": "user", "content": "hi"}, said, {"role": "user", "content": "go on"}])
    assert world.records[1].parent_seq == 1


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_client_that_leaves_before_anything_was_sampled_is_errored(world: World, streamed: bool) -> None:
    base = await world.open()
    world.engine.script = Script(rules=[Rule(delay_s=5.0)])
    call = asyncio.create_task(world.http.post(f"{base}/v1/chat/completions", json=body("hi", stream=streamed)).__aenter__())
    await eventually(lambda: bool(world.engine.requests))
    call.cancel()
    await asyncio.wait({call})
    await eventually(lambda: bool(world.engine.finished), within_s=0.2)
    assert await world.seal() == {"calls": 1, "errored": [1], "cut": [], "lost": []}
    assert not world.records


async def test_a_client_that_hangs_up_after_the_last_event_got_its_reply(world: World) -> None:
    base = await world.open()
    async with world.stream(base) as response:
        await response.content.readuntil(b"[DONE]")
        response.close()
    assert await world.seal() == {"calls": 1, "errored": [], "cut": [], "lost": []}


async def test_a_client_that_leaves_while_the_record_is_made_is_cut(world: World) -> None:
    base = await world.open()
    world.bus.free.clear()
    async with world.stream(base) as response:
        await world.bus.waiting.wait()
        response.close()
    await asyncio.sleep(0.05)
    world.bus.free.set()
    assert await world.seal() == {"calls": 1, "errored": [], "cut": [1], "lost": []}
    assert len(world.records) == 1


async def test_without_the_bus_a_whole_call_is_503_and_lost(world: World) -> None:
    base = await world.open()
    world.bus.down = True
    async with world.http.post(f"{base}/v1/chat/completions", json=body("hi")) as response:
        assert (response.status, response.headers["retry-after"]) == (503, "1")
    world.bus.down = False
    assert await world.seal() == {"calls": 1, "errored": [], "cut": [], "lost": [1]}


async def test_without_the_bus_a_stream_is_broken_off_and_never_looks_whole(world: World) -> None:
    base = await world.open()
    world.bus.down = True
    seen = await broken_stream(world, base)
    assert b"error" not in seen  # clients would take it for final
    assert b"[DONE]" not in seen
    assert b'"finish_reason":"stop"' not in seen
    world.bus.down = False
    assert (await world.seal())["lost"] == [1]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("spoil", ["short_logprobs", "nan_logprob", "no_prompt_ids"])
async def test_an_answer_that_cannot_be_recorded_exactly_fails_the_call(world: World, spoil: str, streamed: bool) -> None:
    base = await world.open()
    world.engine.script = Script(rules=[Rule(spoil=spoil)])  # type: ignore[arg-type]
    try:
        async with world.http.post(f"{base}/v1/chat/completions", json=body("hi", stream=streamed)) as response:
            answer = await response.read()
            assert response.status == 502
            assert json.loads(answer)["error"]["code"] == "bad_engine_answer"
            assert not streamed
    except aiohttp.ClientPayloadError:
        assert streamed
    assert not world.records
    assert (await world.seal())["lost"] == [1]


async def test_the_engines_refusal_is_passed_on_in_its_own_words(world: World) -> None:
    base = await world.open()
    status, answer = await world.chat(base, "x" * 5000)
    assert (status, answer["error"]["code"]) == (400, "context_length_exceeded")
    assert "maximum context length" in answer["error"]["message"]
    async with world.stream(base, "x" * 5000) as response:
        assert (response.status, await response.json()) == (400, answer | {"error": answer["error"]})
    assert await world.seal() == {"calls": 2, "errored": [1, 2], "cut": [], "lost": []}


@pytest.mark.parametrize(("engine_says", "harness_hears"), [(500, 502), (503, 503), (301, 502)])
async def test_an_engine_that_fails_is_reported_and_the_call_errored(
    world: World, engine_says: int, harness_hears: int
) -> None:
    base = await world.open()
    world.engine.script = Script(rules=[Rule(status=engine_says)])
    for streamed in (False, True):
        async with world.http.post(f"{base}/v1/chat/completions", json=body("hi", stream=streamed)) as response:
            assert (response.status, response.headers["retry-after"]) == (harness_hears, "1")
            assert (await response.json())["error"]["type"] == "server_error"
    assert (await world.seal())["errored"] == [1, 2]


async def test_an_engine_that_is_not_there_is_503(world: World) -> None:
    base = await world.open()
    await world.engine.stop()
    assert (await world.chat(base))[0] == 503
    assert (await world.seal())["errored"] == [1]


async def test_an_engine_that_takes_too_long_is_503(make_world: MakeWorld) -> None:
    world = await make_world(call_timeout_s=0.2)
    base = await world.open()
    world.engine.script = Script(rules=[Rule(delay_s=5.0)])
    status, answer = await world.chat(base)
    assert status == 503
    assert "call_timeout_s" in answer["error"]["message"]
    assert (await world.seal())["errored"] == [1]


@pytest.mark.parametrize("failure", [Rule(text="abcdef", drop_after=3), Rule(text="abcdef", error_after=3)])
async def test_what_was_sampled_before_the_engine_broke_off_is_kept_as_cut(world: World, failure: Rule) -> None:
    base = await world.open()
    world.engine.script = Script(rules=[failure])
    seen = await broken_stream(world, base)
    assert b'"error"' not in seen
    assert b"[DONE]" not in seen
    assert await world.seal() == {"calls": 1, "errored": [], "cut": [1], "lost": []}
    [record] = world.records
    assert unpack_ids(record.completion) == list(b"abc")[: len(record.completion) // 4]
    assert record.completion


@pytest.mark.parametrize("api", ROUTES)
async def test_a_stream_that_failed_ends_so_that_clients_of_its_api_try_again(world: World, api: str) -> None:
    base = await world.open()
    world.engine.script = Script(rules=[Rule(text="abcdef", drop_after=3)])
    wire = await Wire.to(base)
    await wire.post(urlsplit(base).path + route(api, stream=True), asked(api, "hi", stream=True))
    if api == "gemini":  # its clients do not try again when a connection breaks, but when something is left at the end
        seen = await wire.until(b"\r\n0\r\n\r\n")
        wire.hang_up()
    else:
        _, seen = await wire.answer()
    assert seen.endswith(b"\r\n0\r\n\r\n") == (api == "gemini")
    assert ENDS[api] not in seen
    assert await world.seal() == {"calls": 1, "errored": [], "cut": [1], "lost": []}


async def test_an_intent_is_settled_once_the_store_is_back(world: World) -> None:
    base = await world.open()
    world.engine.script = Script(rules=[Rule(delay_s=0.1)])
    call = asyncio.create_task(world.chat(base))
    await eventually(lambda: bool(world.engine.requests))
    world.sessions.down = True
    assert (await call)[0] == 200
    assert await world.sessions.replicas.in_flight() == 1
    world.sessions.down = False

    async def settled() -> bool:
        return await world.sessions.replicas.in_flight() == 0

    await eventually(settled)
    assert await world.seal() == {"calls": 1, "errored": [], "cut": [], "lost": []}


async def test_sealing_waits_for_calls_in_flight_and_counts_what_takes_too_long_as_lost(world: World) -> None:
    base = await world.open()
    world.engine.script = Script(rules=[Rule(calls=[1], delay_s=0.3), Rule(calls=[2], delay_s=10.0)])
    calls = [asyncio.create_task(world.chat(base)) for _ in range(2)]
    await eventually(lambda: len(world.engine.requests) == 2)
    assert await world.seal() == {"calls": 2, "errored": [], "cut": [], "lost": [2]}
    calls[1].cancel()
    assert (await calls[0])[0] == 200
