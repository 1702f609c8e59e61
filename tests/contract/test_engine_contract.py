"""What the project relies on in an engine: the scripted one and a real vLLM keep the same promises."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from services.proxy.answer import Answer
from services.proxy.sse import SseSplitter, data_of

Json = dict[str, Any]

TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {}}}}]


@pytest.fixture(
    params=[
        pytest.param("scripted_process", id="scripted"),
        # the first call to start a real engine pays for making the model, loading it and warming up
        pytest.param("vllm_engine", id="vllm", marks=[pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(600)]),
    ]
)
def url(request: pytest.FixtureRequest) -> str:
    """Each engine in turn."""
    return str(request.getfixturevalue(request.param))


@pytest.fixture
async def http(url: str) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of the engine."""
    async with aiohttp.ClientSession(url, timeout=aiohttp.ClientTimeout(total=300)) as session:
        yield session


def request(said: str = "hi", **fields: Any) -> Json:
    """A chat request as the proxy sends it."""
    messages = [{"role": "user", "content": said}]
    asked = {"logprobs": True, "top_logprobs": 0, "return_token_ids": True, "temperature": 1.0, "top_p": 1.0, "max_tokens": 16}
    return {"model": "policy", "messages": messages, "seed": 1} | asked | fields


async def post(http: aiohttp.ClientSession, path: str, body: Json | None = None) -> Json:
    async with http.post(path, json=body) as response:
        assert response.status == 200, await response.text()
        return json.loads(await response.read() or b"{}") or {}


async def stream(http: aiohttp.ClientSession, body: Json) -> bytes:
    """The events of a streamed reply."""
    splitter, found = SseSplitter(), b""
    async with http.post("/v1/chat/completions", json=body | {"stream": True}) as response:
        assert response.status == 200, await response.text()
        async for piece in response.content.iter_any():
            found += splitter.feed(piece)
    assert splitter.rest == b""
    return found


async def whole(http: aiohttp.ClientSession, body: Json) -> Answer:
    answer = Answer()
    answer.add_whole(json.dumps(await post(http, "/v1/chat/completions", body)).encode())
    return answer


async def streamed(http: aiohttp.ClientSession, body: Json) -> Answer:
    answer = Answer()
    answer.add(data_of(await stream(http, body)))
    return answer


def prompt_ids(answer: Answer) -> list[int]:
    answer.check()
    return list(json.loads(answer.prompt))


async def counted(http: aiohttp.ClientSession) -> int:
    """Tokens generated since the engine started, once the count stands still."""
    counts = [-1]
    while len(counts) < 3 or counts[-1] != counts[-2]:
        async with http.get("/metrics") as response:
            lines = (await response.text()).splitlines()
        counts.append(
            int(sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("vllm:generation_tokens_total")))
        )
        await asyncio.sleep(0.2)
    return counts[-1]


async def test_it_is_healthy_and_serves_the_policy(http: aiohttp.ClientSession) -> None:
    async with http.get("/health") as response:
        assert response.status == 200
    async with http.get("/v1/models") as response:
        assert [m["id"] for m in (await response.json())["data"]] == ["policy"]


@pytest.mark.parametrize("fields", [{}, {"tools": TOOLS}, {"max_tokens": 1}])
async def test_a_reply_has_ids_and_as_many_logprobs(http: aiohttp.ClientSession, fields: Json) -> None:
    for answer in (await whole(http, request(**fields)), await streamed(http, request(**fields))):
        assert prompt_ids(answer)
        assert 1 <= len(answer.completion) <= fields.get("max_tokens", 16)
        assert all(math.isfinite(p) and p <= 0 for p in answer.logprobs)
        assert answer.finish_reason in ("stop", "length", "tool_calls")


async def test_streamed_and_whole_agree(http: aiohttp.ClientSession) -> None:
    one, other = await whole(http, request()), await streamed(http, request())
    assert (one.prompt, one.completion, one.finish_reason) == (other.prompt, other.completion, other.finish_reason)
    assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)
    assert one.reply == other.reply


async def test_the_first_event_has_the_prompt_and_every_later_one_its_own_tokens(http: aiohttp.ClientSession) -> None:
    found = await stream(http, request())
    first, *rest = map(json.loads, data_of(found))
    assert first["prompt_token_ids"]
    assert not first["choices"][0].get("token_ids")
    for chunk in rest:
        assert "prompt_token_ids" not in chunk
        [choice] = chunk["choices"]
        assert len(choice["token_ids"]) == len(choice["logprobs"]["content"]) >= 1
    assert [bool(c["choices"][0]["finish_reason"]) for c in rest] == [False] * (len(rest) - 1) + [True]
    assert found.endswith(b"\n\ndata: [DONE]\n\n")


async def test_usage_comes_last_when_asked_for(http: aiohttp.ClientSession) -> None:
    found = data_of(await stream(http, request(stream_options={"include_usage": True})))
    answer = Answer()
    answer.add(found)
    usage = json.loads(found[-1])
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == len(answer.completion)
    assert usage["usage"]["prompt_tokens"] == len(prompt_ids(answer))


async def test_the_prompt_is_what_tokenize_gives(http: aiohttp.ClientSession) -> None:
    body = request(tools=TOOLS)
    rendered = await post(
        http, "/tokenize", {k: body[k] for k in ("model", "messages", "tools")} | {"add_generation_prompt": True}
    )
    assert prompt_ids(await whole(http, body)) == rendered["tokens"]


async def test_the_counter_counts_sampled_tokens_exactly(http: aiohttp.ClientSession) -> None:
    before = await counted(http)
    calls = [ask(http, request(seed=n, max_tokens=5 + n)) for n in range(4) for ask in (whole, streamed)]
    answers = await asyncio.gather(*calls)
    assert await counted(http) - before == sum(len(a.completion) for a in answers)


async def test_a_client_that_leaves_stops_the_sampling(http: aiohttp.ClientSession) -> None:
    before, answer, splitter = await counted(http), Answer(), SseSplitter()
    body = request("slow", max_tokens=300, ignore_eos=True, stream=True)
    async with http.post("/v1/chat/completions", json=body) as response:
        async for piece in response.content.iter_any():
            answer.add(data_of(splitter.feed(piece)))
            if len(answer.completion) >= 5:
                response.close()
                break
    sampled = await counted(http) - before
    assert len(answer.completion) <= sampled < 300


async def test_replaying_a_reply_as_a_prompt_gives_its_logprobs(http: aiohttp.ClientSession) -> None:
    answer = await whole(http, request())
    prompt = prompt_ids(answer)
    ids = prompt + answer.completion
    body = {"model": "policy", "prompt": ids, "max_tokens": 1, "prompt_logprobs": 0, "temperature": 0.0}
    [choice] = (await post(http, "/v1/completions", body))["choices"]
    replayed = [choice["prompt_logprobs"][i][str(ids[i])]["logprob"] for i in range(len(prompt), len(ids))]
    assert replayed == pytest.approx(answer.logprobs, abs=1e-4)


async def test_a_prompt_that_is_too_long_is_a_400_that_says_so(http: aiohttp.ClientSession) -> None:
    async with http.post("/v1/chat/completions", json=request("x" * 6000)) as response:
        assert response.status == 400
        assert "maximum context length" in (await response.json())["error"]["message"]


async def test_ids_that_were_sampled_before_are_sent_again_as_they_were(http: aiohttp.ClientSession) -> None:
    first = await whole(http, request())
    sent = [*prompt_ids(first), *first.completion, *(await post(http, "/tokenize", request("go on")))["tokens"]]
    body = request(messages=[], tools=TOOLS, kv_transfer_params={"prompt_token_ids": sent})
    again = await streamed(http, body)
    assert prompt_ids(again) == sent
    assert again.completion


async def test_ids_are_rendered_as_they_are(http: aiohttp.ClientSession) -> None:
    body = {"model": "policy", "messages": [], "kv_transfer_params": {"prompt_token_ids": [7, 8, 9]}}
    assert (await post(http, "/v1/chat/completions/render", body))["token_ids"] == [7, 8, 9]


async def test_a_turn_is_rendered_with_and_without_what_opens_the_next(http: aiohttp.ClientSession) -> None:
    messages = [{"role": "user", "content": "u"}]
    closed, opened = [
        (await post(http, "/tokenize", {"model": "policy", "messages": messages, "add_generation_prompt": o}))["tokens"]
        for o in (False, True)
    ]
    assert opened[: len(closed)] == closed
    assert len(opened) > len(closed)


async def test_calls_wait_while_it_is_paused(http: aiohttp.ClientSession) -> None:
    await whole(http, request())
    await post(http, "/pause?mode=keep")
    call = asyncio.create_task(whole(http, request()))
    assert not (await asyncio.wait({call}, timeout=0.3))[0]
    await post(http, "/resume")
    assert (await call).completion
