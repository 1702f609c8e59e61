"""The conversing engine: its tokenizer is no toy, its parsers do as vLLM's, and ids come back as they went in."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine import real_tokenizer as tokenizer
from tests.engine.real import RealEngine
from tests.engine.real_parser import Parser, whole
from tests.engine.real_prompt import Prompt, Say, read_prompt

Json = dict[str, Any]
TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}]
TALK: list[Json] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Look: "}, {"type": "image_url", "image_url": {"url": "data:,"}}]},
    {"role": "assistant", "content": "Yes.", "reasoning": "\nhm\n", "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "bash", "arguments": '{"command":"ls"}'}},
    ]},
    {"role": "tool", "tool_call_id": "a", "content": "seed.txt"},
]  # fmt: skip
REPLY = 'Été\n<tool_call>\n{"name": "bash", "arguments": {"command" :  "echo {x}"}}\n</tool_call>'


class Echo:
    """Says the same whatever it is asked; notes what it saw."""

    def __init__(self) -> None:
        self.text = "<think>\nhm 🦊\n</think>\n\n" + REPLY
        self.seen: list[Prompt] = []

    def say(self, prompt: Prompt) -> Say:
        self.seen.append(prompt)
        return Say(self.text)


@pytest.fixture(scope="module", autouse=True)
def trained() -> None:
    """Making the tokenizer takes longer than a test may."""
    tokenizer.tokenizer()


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[tuple[RealEngine, Echo]]:
    model = Echo()
    made = RealEngine(model, tmp_path / "log.jsonl", max_model_len=2048)
    await made.start()
    yield made, model
    await made.stop()


async def post(engine: RealEngine, path: str, **body: Any) -> tuple[int, Json]:
    async with aiohttp.ClientSession(engine.url) as http, http.post(path, json={"model": "policy", **body}) as response:
        return response.status, json.loads(await response.read())


async def stream(engine: RealEngine, **body: Any) -> list[Json]:
    body = {"model": "policy", "stream": True, "return_token_ids": True, "logprobs": True, **body}
    async with aiohttp.ClientSession(engine.url) as http, http.post("/v1/chat/completions", json=body) as response:
        events = (await response.read()).decode().split("\n\n")
    return [json.loads(event.removeprefix("data: ")) for event in events if event and "[DONE]" not in event]


@given(st.text())
def test_every_text_comes_back_from_its_ids(text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text


@given(st.text(st.characters(codec="utf-8")), st.integers())
def test_sampled_ids_say_the_text(text: str, seed: int) -> None:
    ids = tokenizer.sampled(text, seed)
    assert tokenizer.decode(ids) == text
    assert ids == tokenizer.sampled(text, seed)


def test_sampled_ids_are_not_always_the_tokenizers_own() -> None:
    text = "The configuration of the orchestrator, and its documentation. " * 4
    assert tokenizer.sampled(text, 1) != tokenizer.encode(text)


def test_a_prompt_can_be_read_back() -> None:
    prompt = read_prompt(tokenizer.render(TALK, TOOLS), {"tools": TOOLS})
    assert [turn.role for turn in prompt.turns] == ["system", "user", "assistant", "tool"]
    assert prompt.turns[2].text.startswith("<think>\nhm\n</think>\n\nYes.\n<tool_call>")
    assert prompt.turns[3].text == "seed.txt"
    assert (prompt.tools, prompt.images) == (["bash"], 1)


def test_thinking_goes_once_the_user_speaks_again() -> None:
    again = read_prompt(tokenizer.render([*TALK, {"role": "user", "content": "And?"}], TOOLS), {})
    assert again.turns[2].text.startswith("Yes.\n<tool_call>")


async def test_streamed_and_whole_replies_have_the_same_tokens(engine: tuple[RealEngine, Echo]) -> None:
    served, _ = engine
    chunks = await stream(served, messages=TALK, tools=TOOLS)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    arguments = "".join(d["tool_calls"][0]["function"]["arguments"] for d in deltas if "tool_calls" in d)
    assert arguments == '{"command" :  "echo {x}"}'
    assert "".join(d.get("reasoning", "") for d in deltas) == "\nhm 🦊\n"
    assert "".join(d.get("content") or "" for d in deltas) == "\n\nÉté\n"
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    ids = [i for chunk in chunks for i in chunk["choices"][0].get("token_ids", [])]
    assert tokenizer.decode(ids).endswith("</tool_call><|im_end|>")
    assert chunks[0]["prompt_token_ids"] == tokenizer.render(TALK, TOOLS)
    status, reply = await post(served, "/v1/chat/completions", messages=TALK, tools=TOOLS)
    call = reply["choices"][0]["message"]["tool_calls"][0]["function"]
    assert (status, call["arguments"]) == (200, '{"command": "echo {x}"}')  # whole replies write arguments anew


async def test_ids_in_place_of_messages_are_taken_as_they_are(engine: tuple[RealEngine, Echo]) -> None:
    served, model = engine
    ids = tokenizer.render(TALK, TOOLS)
    odd = [*ids[:-1], *tokenizer.encode("\n")]
    for prompt in (ids, odd):
        chunks = await stream(served, messages=[], tools=TOOLS, kv_transfer_params={"prompt_token_ids": prompt})
        assert chunks[0]["prompt_token_ids"] == prompt
    assert model.seen[0].turns == read_prompt(ids, {}).turns
    assert [entry["spliced"] for entry in served.calls] == [True, True]


async def test_rendering_and_tokenizing_agree_with_the_echo(engine: tuple[RealEngine, Echo]) -> None:
    served, _ = engine
    ids = tokenizer.render(TALK, TOOLS)
    assert (await post(served, "/tokenize", messages=TALK, tools=TOOLS))[1]["tokens"] == ids
    assert (await post(served, "/v1/chat/completions/render", messages=TALK, tools=TOOLS))[1]["token_ids"] == ids
    closed = (await post(served, "/tokenize", messages=TALK, tools=TOOLS, add_generation_prompt=False))[1]["tokens"]
    assert ids[: len(closed)] == closed


@pytest.mark.parametrize("fields", [{"max_tokens": 2000}, {"messages": [{"role": "user", "content": "word " * 3000}]}])
async def test_what_does_not_fit_is_refused_in_vllms_words(engine: tuple[RealEngine, Echo], fields: Json) -> None:
    status, reply = await post(engine[0], "/v1/chat/completions", **{"messages": TALK, "tools": TOOLS, **fields})
    assert status == 400
    assert "This model's maximum context length is 2048 tokens. However, you requested" in reply["error"]["message"]


def test_a_call_that_is_no_json_is_a_call_when_streamed_and_text_when_whole() -> None:
    broken = 'Hm.\n<tool_call>\n{"name": "bash", "arguments": {"command": "ls, "x\n</tool_call>'
    ids = tokenizer.encode(broken)
    parser = Parser(1)
    for token in ids:
        parser.feed(token)
    assert [call["function"]["arguments"] for call in parser.calls] == ['{"command": "ls, "x']
    assert whole(ids, 1) == {"role": "assistant", "content": broken}
