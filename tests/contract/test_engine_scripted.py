"""What the scripted engine adds to the contract: it follows orders and scripts, and takes weights that are not there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from tests.engine import bytes_tokenizer as tokenizer
from tests.engine.script import Call, Rule, Script
from tests.engine.scripted import ScriptedEngine

Json = dict[str, Any]


async def chat(engine: ScriptedEngine, messages: list[Json], **fields: Any) -> tuple[int, Json]:
    body = {"model": "policy", "messages": messages, "return_token_ids": True} | fields
    async with aiohttp.ClientSession(engine.url) as http, http.post("/v1/chat/completions", json=body) as response:
        return response.status, json.loads(await response.read())


async def test_it_follows_the_orders_of_the_last_user_message_and_its_turns_extend_each_other(
    scripted_engine: ScriptedEngine,
) -> None:
    messages: list[Json] = [{"role": "user", "content": "first\nDO: ls -l\nDO: echo 'ä' > x"}]
    full: list[int] = []
    commands = []
    for _ in range(3):
        _, answer = await chat(scripted_engine, messages)
        prompt, choice = answer["prompt_token_ids"], answer["choices"][0]
        assert prompt[: len(full)] == full
        full = prompt + choice["token_ids"]
        calls = choice["message"].get("tool_calls", [])
        commands += [json.loads(c["function"]["arguments"])["command"] for c in calls]
        messages += [choice["message"], *({"role": "tool", "tool_call_id": c["id"], "content": "ok"} for c in calls)]
    assert commands == ["ls -l", "echo 'ä' > x"]
    assert messages[-1]["content"] == "done"


async def test_it_logs_what_it_sampled(tmp_path: Path) -> None:
    engine = ScriptedEngine(Script(rules=[Rule(calls=[2], text="wörd")]), tmp_path / "log.jsonl")
    await engine.start()
    for _ in range(2):
        await chat(engine, [{"role": "user", "content": "hi"}])
    await engine.stop()
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [tokenizer.decode(entry["token_ids"]) for entry in lines] == ["done", "wörd"]
    assert [entry["number"] for entry in lines] == [1, 2]


async def test_max_tokens_cuts_a_reply_short(scripted_engine: ScriptedEngine) -> None:
    _, answer = await chat(scripted_engine, [{"role": "user", "content": "DO: ls"}], max_tokens=3)
    assert answer["choices"][0]["finish_reason"] == "length"
    assert len(answer["choices"][0]["token_ids"]) == 3


async def test_weights_are_taken_in_order_only(scripted_engine: ScriptedEngine) -> None:
    async with aiohttp.ClientSession(scripted_engine.url) as http:

        async def post(path: str, body: Json | None = None) -> int:
            async with http.post(path, json=body) as response:
                return response.status

        assert await post("/update_weights", {"update_info": {"path": "x"}}) == 500
        assert await post("/start_weight_update") == 500
        steps: list[tuple[str, Json | None]] = [
            ("/init_weight_transfer_engine", {"init_info": {"root": "/w"}}), ("/pause?mode=keep", None),
            ("/start_weight_update", None), ("/update_weights", {"update_info": {"path": "/w/1"}}),
            ("/finish_weight_update", {"weight_version": "1"}), ("/reset_prefix_cache", None), ("/resume", None),
        ]  # fmt: skip
        assert [await post(*step) for step in steps] == [200] * len(steps)
        async with http.get("/weight_info") as response:
            assert await response.json() == {"weight_version": "1"}
    assert scripted_engine.weights.loaded == [{"path": "/w/1"}]


@pytest.mark.parametrize("script", [{"rules": [{"statsu": 500}]}, {"rules": [{"spoil": "all"}]}, []])
def test_a_script_that_is_wrong_ends_the_process_with_a_reason(tmp_path: Path, script: Any) -> None:
    (tmp_path / "script.json").write_text(json.dumps(script))
    command = [sys.executable, "-m", "tests.engine.scripted", "--port", "1", "--script", str(tmp_path / "script.json")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode != 0
    assert "ValidationError" in ended.stderr


def test_scripts_are_json() -> None:
    script = Script(rules=[Rule(calls=[1], contains="x", status=500)])
    assert msgspec.json.decode(msgspec.json.encode(script), type=Script) == script


async def test_a_script_may_call_tools_and_quote_the_last_user_message(scripted_engine: ScriptedEngine) -> None:
    scripted_engine.script = Script(
        rules=[
            Rule(calls=[1], tool_calls=[Call(name="computer", arguments={"x": 1}), Call(name="bash", arguments={})]),
            Rule(find=r"\[(\d+)\]<button", text=r"press \1"),
        ]
    )
    answers = [
        (await chat(scripted_engine, [{"role": "user", "content": f"[3]<a> [{n}]<button>"}]))[1]["choices"][0] for n in (7, 8)
    ]
    assert answers[0]["finish_reason"] == "tool_calls"
    calls = [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in answers[0]["message"]["tool_calls"]]
    assert calls == [("call-1-0", "computer", '{"x": 1}'), ("call-1-1", "bash", "{}")]
    assert answers[1]["message"]["content"] == "press 8"


async def test_images_are_rows_of_placeholders(scripted_engine: ScriptedEngine) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    content = [{"type": "text", "text": "a"}, image, {"type": "text", "text": "b"}]
    _, answer = await chat(scripted_engine, [{"role": "user", "content": content}])
    said = [*tokenizer.encode("a"), *[tokenizer.IMAGE] * tokenizer.IMAGE_TOKENS, *tokenizer.encode("b")]
    turn = [tokenizer.START, *tokenizer.encode("user\n"), *said, tokenizer.END, *tokenizer.encode("\n")]
    assert answer["prompt_token_ids"] == [*turn, tokenizer.START, *tokenizer.encode("assistant\n")]
