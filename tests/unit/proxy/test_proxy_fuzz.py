"""Requests as no harness sends them: each is answered, in the words of its API, and nothing is recorded that was no call."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.engine.scripted import ScriptedEngine
from tests.unit.proxy.payloads import PAYLOADS, PNG_URL
from tests.unit.proxy.wires import ROUTES, Wire, asked, error_of
from tests.unit.proxy.world import World, living_world

Json = dict[str, Any]
Way = tuple[Any, ...]
_LIMIT_S = 5.0
fuzzed = settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)  # without shrinking: what fails says which request it was

texts = st.text(st.characters(), max_size=8)
scalars = st.none() | st.booleans() | st.integers() | st.integers(-2, 3) | st.floats() | texts | st.sampled_from(
    ["user", "assistant", "tool", "text", "image_url", "function", "auto", PNG_URL, "data:,"]
)  # fmt: skip
values = st.recursive(scalars, lambda v: st.lists(v, max_size=3) | st.dictionaries(texts, v, max_size=3), max_leaves=6)


def ways(value: Any, way: Way = ()) -> Iterator[Way]:
    """The way to every value inside a JSON value."""
    yield way
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from ways(inner, (*way, key))


@st.composite
def mutants(draw: st.DrawFn, payload: Json) -> Any:
    """A request in which some values are others, missing, doubled or renamed."""
    mutant: Any = {"": copy.deepcopy(payload)}
    for _ in range(draw(st.integers(1, 2))):
        way = draw(st.sampled_from([w for w in ways(mutant) if w]))
        holder = mutant
        for key in way[:-1]:
            holder = holder[key]
        match draw(st.sampled_from(["replace", "replace", "delete", "double", "rename"])):
            case "replace":
                holder[way[-1]] = draw(values)
            case "delete" if len(way) > 1:
                del holder[way[-1]]
            case "double":
                holder[way[-1]] = [holder[way[-1]]] * 2
            case "rename" if isinstance(holder, dict) and len(way) > 1:
                holder[draw(texts)] = holder.pop(way[-1])
    return mutant[""]


@st.composite
def bodies(draw: st.DrawFn, api: str) -> bytes:
    """A body: a mutant, or no JSON at all."""
    text = json.dumps(draw(st.sampled_from(PAYLOADS[api]).flatmap(mutants))).encode()
    match draw(st.sampled_from(["whole"] * 6 + ["truncated", "nested", "spoilt", "noise"])):
        case "truncated":
            return text[: draw(st.integers(0, len(text)))]
        case "nested":
            depth = draw(st.sampled_from([200, 2000, 20_000]))
            nested = draw(st.sampled_from([b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth]))
            return text.replace(b'"hi"', nested).replace(b"50", nested)
        case "spoilt":
            return text.replace(b"i", draw(st.binary(max_size=2)))
        case "noise":
            return draw(st.binary(max_size=40))
    return text


requests = st.sampled_from(sorted(PAYLOADS)).flatmap(lambda api: st.tuples(st.just(api), st.booleans(), bodies(api)))


def test_every_payload_that_is_mutated_is_valid_by_itself() -> None:
    """Or the mutants would all be refused for one and the same reason."""

    async def scenario(world: World, base: str) -> None:
        for api, payloads in PAYLOADS.items():
            for payload in payloads:
                async with world.http.post(base + ROUTES[api], json=payload) as response:
                    assert response.status == 200, (api, await response.text())

    asyncio.run(in_world(scenario))


@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")  # what it prints on failure is long
@fuzzed
@given(st.lists(requests, min_size=15, max_size=15))
def test_odd_bodies_are_refused_or_served(sent: list[tuple[str, bool, bytes]]) -> None:
    async def scenario(world: World, base: str) -> None:
        for api, count, content in sent:
            path = _counted(api) if count else ROUTES[api]
            async with asyncio.timeout(_LIMIT_S), world.http.post(base + path, data=content) as response:
                answer = await response.read()
                assert response.status in (200, 400), (api, content, answer)
                if response.status == 400:
                    error_of(api, json.loads(answer))

    asyncio.run(in_world(scenario))


def _counted(api: str) -> str:
    routes = {
        "anthropic.messages": "/v1/messages/count_tokens", "gemini": "/v1beta/models/m:countTokens",
        "openai.responses": "/v1/responses/input_tokens",
    }  # fmt: skip
    return routes.get(api, ROUTES[api])


visible = st.binary(max_size=30).map(lambda b: b.translate(None, b"\r\n\0"))
names = st.sampled_from(
    [
        b"authorization", b"Authorization", b"x-api-key", b"x-goog-api-key", b"content-type", b"accept", b"upgrade", b"expect",
        b"user-agent", b"anthropic-beta", b"session_id", b"x-claude-code-session-id", b"content-encoding", b"cookie", b"te",
    ]
)  # fmt: skip
odd_values = visible | st.sampled_from(
    [b"Bearer", b"Bearer ", b"bearer  x", b"Basic eDp5", b"100-continue", b"websocket", b"x" * 9000]
)
headers = st.lists(st.tuples(names, odd_values), max_size=5)
odd_paths = st.one_of(
    st.sampled_from(
        [*ROUTES.values(), "/v1beta/models/a%2Fb:generateContent", "/v1/models", "/api/hello", "/", "*", "//", "/run"]
    ),
    texts.map(lambda t: "/" + quote(t.encode(errors="replace"))),
    st.tuples(st.sampled_from(sorted(ROUTES.values())), texts).map(lambda p: p[0] + quote(p[1].encode(errors="replace"))),
)
queries = st.one_of(
    st.just(""), texts.map(lambda t: "?" + quote(t.encode(errors="replace"), safe="=&;%")), st.just("?key=%ff&key=")
)
methods = st.sampled_from(["POST", "POST", "POST", "GET", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"])
heads = st.tuples(methods, st.booleans(), odd_paths, queries, headers)


@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")  # what it prints on failure is long
@fuzzed
@given(st.lists(heads, min_size=15, max_size=15), st.sampled_from(sorted(ROUTES)))
def test_odd_paths_queries_and_headers_are_refused_or_served(sent: list[tuple[Any, ...]], api: str) -> None:
    content = json.dumps(asked(api, "hi")).encode()

    async def scenario(world: World, base: str) -> None:
        for method, ours, path, query, pairs in sent:
            wire = await Wire.to(base)
            start = (urlsplit(base).path if ours else "") + path + query
            lines = b"".join(b"%b: %b\r\n" % pair for pair in pairs)
            length = b"content-length: %d\r\nconnection: close\r\n\r\n" % len(content)
            await wire.send(f"{method} {start} HTTP/1.1\r\nhost: x\r\n".encode() + lines + length + content)
            status, answer = await wire.answer()
            assert status == 200 or 400 <= status < 500, (method, start, pairs, status, answer)

    asyncio.run(in_world(scenario))


async def in_world(scenario: Callable[[World, str], Awaitable[None]]) -> None:
    """Plays a scenario; afterwards every call that the engine finished is on record, and nothing else."""
    engine = ScriptedEngine()
    await engine.start()
    async with living_world(engine) as world:
        await scenario(world, await world.open())
        seal = await world.seal()
    await engine.stop()
    assert len(world.records) == len(engine.finished) == seal["calls"] - len(seal["errored"])
    assert (seal["cut"], seal["lost"]) == ([], [])
