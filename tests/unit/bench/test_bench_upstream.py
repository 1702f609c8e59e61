"""The fake engine of the benchmark and its load."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from services.proxy.bridge import Frame, delta
from tests.bench.bodies import Api, body
from tests.bench.load import Load, run
from tests.bench.replies import COMPLETION, DELTA, REPLY, REPLY_TOKENS
from tests.bench.upstream import FakeEngine, answer

CHAT = b"/v1/chat/completions"
APIS = st.sampled_from(["chat", "anthropic"])


def ask(path: bytes, request: bytes) -> dict[str, Any]:
    head, _, reply = answer(path, request, Counter()).partition(b"\r\n\r\n")
    assert f"content-length: {len(reply)}".encode() in head
    return dict(json.loads(reply))


def whole(request: bytes) -> dict[str, Any]:
    return ask(CHAT, request)


def events(request: bytes) -> list[bytes]:
    _, _, chunked = answer(CHAT, request, Counter()).partition(b"\r\n\r\n")
    stream = b""
    while chunked:
        size, _, rest = chunked.partition(b"\r\n")
        stream, chunked = stream + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
    return [event.removeprefix(b"data: ") for event in stream.split(b"\n\n") if event]


@given(api=APIS, base=st.integers(1, 3000), turn=st.integers(0, 3))
def test_a_prompt_starts_with_what_came_before_it(api: Api, base: int, turn: int) -> None:
    before, after = (whole(body(api, base, n, stream=False)) for n in (turn, turn + 1))
    assert after["prompt_token_ids"] == [*before["prompt_token_ids"], *COMPLETION, *DELTA]
    assert len(before["prompt_token_ids"]) == base + turn * (len(COMPLETION) + len(DELTA))


@given(ids=st.lists(st.integers(0, 200_000), min_size=1), stream=st.booleans())
def test_ids_that_are_given_are_echoed(ids: list[int], stream: bool) -> None:
    request = msgspec.json.encode({"messages": [], "kv_transfer_params": {"prompt_token_ids": ids}, "stream": stream})
    reply = json.loads(events(request)[0]) if stream else whole(request)
    assert reply["prompt_token_ids"] == ids


def test_a_stream_holds_what_the_whole_reply_holds() -> None:
    first, *chunks, last, done = events(body("chat", 2000, 1, stream=True)[:-1] + b',"stream_options":{"include_usage":true}}')
    reply = whole(body("chat", 2000, 1, stream=False))
    choices = [json.loads(chunk)["choices"][0] for chunk in chunks]
    assert (done, len(choices), json.loads(last)["usage"]) == (b"[DONE]", REPLY_TOKENS, reply["usage"])
    assert json.loads(first)["prompt_token_ids"] == reply["prompt_token_ids"]
    assert "".join(c["delta"].get("content", "") for c in choices) == REPLY
    wanted = reply["choices"][0]
    assert [i for c in choices for i in c["token_ids"]] == wanted["token_ids"] == COMPLETION
    logprobs = [p["logprob"] for c in choices for p in c["logprobs"]["content"]]
    assert logprobs == [p["logprob"] for p in wanted["logprobs"]["content"]]


def test_sizes_are_those_of_the_design() -> None:
    assert 20_000 < len(answer(CHAT, body("chat", 2000, 0, stream=False), Counter())) < 23_000
    chunks = events(body("chat", 2000, 0, stream=True))[1:-1]
    assert 315 < sum(len(b"data: " + c + b"\n\n") for c in chunks) / len(chunks) < 335


def tokens(*roles: str, generation: bool = True) -> list[int]:
    request = {"messages": [{"role": role, "content": ""} for role in roles], "add_generation_prompt": generation}
    return list(ask(b"/tokenize", msgspec.json.encode(request))["tokens"])


def test_the_delta_of_a_rendered_conversation_is_what_follows_a_reply() -> None:
    frame = Frame(tokens("user", generation=False), tokens("user"))
    stop = COMPLETION[-1]
    assert delta(frame, tokens("user", "assistant", "user"), stop, ()) == DELTA


def test_ids_are_rendered_as_they_are() -> None:
    request = msgspec.json.encode({"messages": [], "kv_transfer_params": {"prompt_token_ids": [7, 8]}})
    assert ask(CHAT + b"/render", request) == {"token_ids": [7, 8]}


async def test_the_load_counts_calls_and_failures() -> None:
    counts = Counter[str]()
    server = await asyncio.get_running_loop().create_server(lambda: FakeEngine(counts), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    for stream in (False, True):
        load = Load(port=port, paths=[CHAT.decode()] * 5, calls=[(2000, 0), (2000, 1)], stream=stream, connections=2)
        result = await run(load)
        assert (result.calls, result.failed) == (10, 0)
    failed = await run(Load(port=port, paths=["/nowhere"], calls=[(10, 0)]))
    assert (failed.calls, failed.failed) == (0, 1)
    assert "404" in failed.reason
    server.close()
