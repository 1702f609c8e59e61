"""The computer-use agent as a process of its own, with a real X server, against the stand-in."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from services.orchestrator.harnesses.adapter import load
from services.orchestrator.harnesses.installed import apt_command
from services.orchestrator.harnesses.library import adapter_file
from tests.unit.orchestrator.house import Reply, StandIn

pytestmark = pytest.mark.real

PROGRAMS = adapter_file("computer").parent / "programs"
FORM = Path(__file__).parents[3] / "examples" / "computer" / "tasks" / "copy-the-word" / "environment" / "form.py"
TK = "apt-get install -y --no-install-recommends python3-tk"


@pytest.fixture(autouse=True)
def programs() -> None:
    """Skips where the programs are missing, and fails where everything ought to be there."""
    command = apt_command(load(adapter_file("computer")).debian)
    tk = subprocess.run(["/usr/bin/python3", "-c", "import tkinter"], capture_output=True, check=False)
    for lacking in filter(None, [command, TK if tk.returncode else ""]):
        pytest.fail(lacking) if os.environ.get("CI") == "true" else pytest.skip(lacking)


def says(*actions: dict[str, Any]) -> Callable[[list[Reply]], Reply]:
    """A model that acts like this, turn by turn, and then says done."""

    def answer(messages: list[Reply]) -> Reply:
        turn = sum(m["role"] == "assistant" for m in messages)
        if turn >= len(actions):
            return {"role": "assistant", "content": "done"}
        function = {"name": "computer", "arguments": msgspec.json.encode(actions[turn]).decode()}
        return {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": f"c{turn}", "type": "function", "function": function}],
        }

    return answer


async def work(proxy: StandIn, folder: Path, **env: Any) -> tuple[int, str, list[Reply]]:
    """Runs the program in `folder` until it ends: exit code, standard error, the conversation that it saved."""
    proxy.opened["s"], proxy.calls["s"] = {}, 0
    (folder / "logs" / "agent").mkdir(parents=True)
    (folder / "instruction.md").write_text("Copy the word.\n")
    shutil.copy(FORM, folder)
    variables = {
        "OPENAI_BASE_URL": f"http://127.0.0.1:{proxy.port}/run/s/v1", "OPENAI_MODEL": "policy", "PATH": os.environ["PATH"],
        "LOGS_DIR": str(folder / "logs"), "START": "/usr/bin/python3 form.py", "SCREEN": "480x320", **env,
    }  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-S", "-m", "computer", str(folder / "instruction.md"), cwd=folder, stderr=asyncio.subprocess.PIPE,
        env=variables | {"PYTHONPATH": str(PROGRAMS)},
    )  # fmt: skip
    _, errors = await process.communicate()
    saved = folder / "logs" / "agent" / "conversation.json"
    conversation = msgspec.json.decode(saved.read_bytes(), type=list[Reply]) if saved.exists() else []
    return process.returncode or 0, errors.decode(), conversation


def kinds(conversation: list[Reply]) -> list[str]:
    """Roles, and the kinds of a user message's parts."""
    return [" ".join([m["role"], *(p["type"] for p in m["content"] if isinstance(p, dict))]) for m in conversation]


async def test_the_form_is_filled_in(proxy: StandIn, tmp_path: Path) -> None:
    proxy.script = says(
        {"action": "click", "x": 280, "y": 165}, {"action": "type", "text": "héron"}, {"action": "key", "keys": "BackSpace"},
        {"action": "double_click", "x": 140, "y": 165}, {"action": "type", "text": "heron"}, {"action": "wait", "seconds": 0.1},
        {"action": "click", "x": 400, "y": 210},
    )  # fmt: skip
    code, errors, said = await work(proxy, tmp_path)
    assert (code, (tmp_path / "answer.txt").read_text()) == (0, "heron\n"), errors
    turn = ["assistant", "tool", "user image_url"]
    assert kinds(said) == ["user text image_url", *turn * 7, "assistant"]
    assert said[0]["content"][0]["text"] == "Copy the word."
    assert all(m["content"] == "ok" for m in said if m["role"] == "tool")
    pictures = [m["content"][-1]["image_url"]["url"] for m in said if m["role"] == "user"]
    assert pictures[0].startswith("data:image/png;base64,")
    assert len(set(pictures)) >= 5


async def test_bad_calls_are_answered_and_turns_are_limited(proxy: StandIn, tmp_path: Path) -> None:
    proxy.script = says({"action": "click"}, {"action": "key", "keys": "NoSuchKey"}, *[{"action": "screenshot"}] * 9)
    code, _, said = await work(proxy, tmp_path, MAX_TURNS="3")
    results = [m["content"] for m in said if m["role"] == "tool"]
    assert (code, proxy.calls["s"], len(results)) == (0, 3, 3)
    assert results[0] == "x must be a whole number from 0 to 479"
    assert "No such key name 'NoSuchKey'" in results[1]


async def test_only_the_last_screenshots_may_be_kept(proxy: StandIn, tmp_path: Path) -> None:
    proxy.script = says(*[{"action": "screenshot"}] * 2, {"action": "done"}, {"action": "screenshot"})
    code, _, said = await work(proxy, tmp_path, KEEP_IMAGES="1")
    turn = ["assistant", "tool"]
    assert (code, kinds(said)) == (0, ["user text text", *turn, "user text", *turn, "user image_url", *turn])


@pytest.mark.parametrize(
    ("env", "complaint"),
    [
        ({"START": "exit 3"}, "'exit 3' ended with status 3 before it showed anything"),
        ({"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "RETRY_S": "0"}, "refused"),
        ({"SCREEN": "0x0"}, "Xvfb did not start"),
    ],
)
async def test_what_cannot_work_ends_with_its_reason(
    proxy: StandIn, tmp_path: Path, env: dict[str, str], complaint: str
) -> None:
    code, errors, _ = await work(proxy, tmp_path, **env)
    assert code == 1
    assert complaint in errors.splitlines()[-1]
