"""The react harness: its program as a process of its own against the stand-in; and the real mini-swe-agent."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from services.orchestrator.harnesses import Request, harness
from services.orchestrator.harnesses.library import BUILT_IN
from shared.errors import HarnessError
from tests.unit.orchestrator.house import House, MakeTask, Reply, StandIn, bash, commands, start

REQUEST = Request("http://127.0.0.1:9/run/s", "s", "policy", 4096, "Do it.", "/home/agent", "/logs", "/app")
PROGRAM = BUILT_IN / "programs" / "react.py"
Conversation = list[Reply]


async def converse(proxy: StandIn, folder: Path, instruction: str = "Do it.\n", **env: Any) -> tuple[int, str, Conversation]:
    """Runs the program in `folder` until it ends: exit code, standard error, the conversation that it saved."""
    proxy.opened["s"], proxy.calls["s"] = {}, 0
    (folder / "logs" / "agent").mkdir(parents=True)
    (folder / "instruction.md").write_text(instruction)
    variables = {
        "OPENAI_BASE_URL": f"http://127.0.0.1:{proxy.port}/run/s/v1", "OPENAI_MODEL": "policy",
        "LOGS_DIR": str(folder / "logs"), "PATH": os.environ["PATH"], **{name: str(value) for name, value in env.items()},
    }  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", str(PROGRAM), "instruction.md", cwd=folder, env=variables, stderr=asyncio.subprocess.PIPE
    )
    _, errors = await process.communicate()
    saved = folder / "logs" / "agent" / "conversation.json"
    conversation = msgspec.json.decode(saved.read_bytes(), type=Conversation) if saved.exists() else []
    return process.returncode or 0, errors.decode(), conversation


async def test_tool_calls_are_run_until_an_answer_without_one(proxy: StandIn, tmp_path: Path) -> None:
    proxy.script = commands("echo one; echo two >&2", "true")
    code, _, said = await converse(proxy, tmp_path)
    assert code == 0
    assert said[0] == {"role": "user", "content": "Do it."}
    assert [m["content"] for m in said if m["role"] == "tool"] == ["one\ntwo", "ok"]
    assert said[1] == bash("echo one; echo two >&2")
    assert said[-1] == {"role": "assistant", "content": "done"}


async def test_turns_are_limited(proxy: StandIn, tmp_path: Path) -> None:
    proxy.script = commands(*["true"] * 10)
    code, _, said = await converse(proxy, tmp_path, MAX_TURNS=3)
    assert (code, proxy.calls["s"], len(said)) == (0, 3, 7)


async def test_long_output_is_cut(proxy: StandIn, tmp_path: Path) -> None:
    proxy.script = commands("head -c 1000000 /dev/zero | tr '\\0' é")
    _, _, said = await converse(proxy, tmp_path, OUTPUT_CHARS=50)
    assert 0 < len(said[2]["content"]) <= 50


@pytest.mark.parametrize(
    ("arguments", "result"),
    [
        ('{"command": 3}', "bad command"),
        ('{"command": "a\\u0000b"}', "bad command"),
        ("{}", "bad arguments"),
        ("echo", "bad arguments"),
        ("[]", "bad arguments"),
    ],
)
async def test_bad_calls_are_answered(proxy: StandIn, tmp_path: Path, arguments: str, result: str) -> None:
    reply = bash("x")
    reply["tool_calls"][0]["function"]["arguments"] = arguments
    proxy.script = lambda messages: reply if len(messages) == 1 else {"role": "assistant", "content": "done"}
    _, _, said = await converse(proxy, tmp_path)
    assert said[2] == {"role": "tool", "tool_call_id": "c1", "content": result}


async def test_commands_do_not_see_the_model_endpoint(proxy: StandIn, tmp_path: Path) -> None:
    proxy.script = commands("env")
    _, _, said = await converse(proxy, tmp_path)
    assert "LOGS_DIR" in said[2]["content"]
    assert "OPENAI" not in said[2]["content"]


async def test_a_busy_endpoint_is_tried_again(proxy: StandIn, tmp_path: Path) -> None:
    proxy.chat_status = 503
    running = asyncio.create_task(converse(proxy, tmp_path))
    async with asyncio.timeout(20):
        while not proxy.errored.get("s"):  # noqa: ASYNC110 - the program is another process
            await asyncio.sleep(0.01)
    proxy.chat_status = 200
    code, _, said = await running
    assert (code, said[-1]["content"]) == (0, "done")


async def test_patience_ends(proxy: StandIn, tmp_path: Path) -> None:
    proxy.chat_status = 503
    code, errors, _ = await converse(proxy, tmp_path, RETRY_S=0.5)
    assert code == 1
    assert "no answer from the model: HTTP 503" in errors


async def test_nobody_listening_ends_with_an_error(proxy: StandIn, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        code, errors, _ = await converse(proxy, tmp_path, RETRY_S=0.3, OPENAI_BASE_URL=url)
    assert code == 1
    assert "Connection refused" in errors


async def test_a_refused_request_is_not_tried_again(proxy: StandIn, tmp_path: Path) -> None:
    proxy.chat_status = 400
    code, errors, _ = await converse(proxy, tmp_path)
    assert (code, proxy.calls["s"]) == (1, 1)
    assert "HTTP 400" in errors


def test_react_takes_its_limits_from_the_task() -> None:
    def env(**metadata: object) -> dict[str, str]:
        return harness("react").launch(replace(REQUEST, metadata=metadata)).env

    assert (env()["MAX_TURNS"], env()["OUTPUT_CHARS"]) == ("8", "4000")
    assert (env(max_turns=4)["MAX_TURNS"], env(output_chars=400)["OUTPUT_CHARS"]) == ("4", "400")
    assert env()["OPENAI_BASE_URL"] == "http://127.0.0.1:9/run/s/v1"
    for bad in (0, -1, "4", None, True):
        with pytest.raises(HarnessError, match=r"metadata\.max_turns"):
            env(max_turns=bad)


def test_react_brings_its_program_along() -> None:
    launch = harness("react").launch(REQUEST)
    assert launch.argv[-2:] == ("/home/agent/react.py", "/home/agent/instruction.md")
    assert launch.files == {"react.py": PROGRAM.read_text(), "instruction.md": "Do it."}


@pytest.mark.real
async def test_the_real_mini_solves_a_task(house: House, make_task: MakeTask) -> None:
    try:
        harness("mini").launch(REQUEST)
    except HarnessError as e:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(e))
    house.proxy.script = commands("echo hello > out.txt", "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")
    async with house.orchestrator():
        await house.publish(start(make_task(), harness="mini", timeout_s=90))
        outcome = await house.ear.outcome(within_s=100)
    log = (house.rollouts / "r1-a1" / "agent.log").read_text()
    assert (getattr(outcome, "reward", None), house.proxy.calls["r1-a1"]) == (1.0, 2), log[-2000:]
