"""The computer-use agent and browser-use complete recorded rollouts of their example tasks, on a scripted engine."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from services.orchestrator.harnesses import Request, harness
from shared.errors import HarnessError
from shared.events import CallRecorded, RolloutFinished, RolloutStart
from shared.subjects import tap_pattern
from shared.task import list_tasks
from tests.e2e.stacks import REPO, LiveStack, live_stack, write_config
from tests.e2e.workbench import Workbench
from tests.engine import bytes_tokenizer as tokenizer
from tests.engine.script import Call, Rule, Script

pytestmark = [pytest.mark.real, pytest.mark.harness, pytest.mark.timeout(300)]

COMPUTER_TASK = REPO / "examples" / "computer" / "tasks" / "copy-the-word"
BROWSER_TASK = REPO / "examples" / "browser" / "tasks" / "copy-the-word"
SETTINGS_TASK = REPO / "examples" / "computer" / "tasks" / "settings-dialog-0"
WIKI_TASK = REPO / "examples" / "browser" / "tasks" / "wiki-find-1"
TK = "the form needs Python's Tk: apt-get install -y --no-install-recommends python3-tk"
REQUEST = Request("http://127.0.0.1:9/run/s", "s", "policy", 4096, "Do it.", "/home/agent", "/logs", "/app", {"start": "true"})


def missing(reason: str) -> None:
    """Skips a test, or fails it where everything ought to be there."""
    pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)


def need(name: str) -> None:
    """The harness's programs must be there."""
    try:
        harness(name).launch(REQUEST)
    except HarnessError as e:
        missing(str(e))


def need_tk() -> None:
    if subprocess.run(["/usr/bin/python3", "-c", "import tkinter"], capture_output=True, check=False).returncode:
        missing(TK)


async def run(stack: LiveStack, task: Path, name: str, rollout: str = "r") -> tuple[RolloutFinished, list[CallRecorded]]:
    """One rollout: its outcome, and its calls in order."""
    run_id, calls = stack.config.run.id, []
    tap = stack.bus.tap(tap_pattern("evt", run_id))
    started = RolloutStart(
        run_id=run_id, rollout_id=rollout, group_id=rollout, group_size=1, purpose="eval", task_dir=str(task), harness=name
    )
    next_message = asyncio.ensure_future(anext(tap))
    await stack.bus.publish(started)
    async with asyncio.timeout(250):
        while not isinstance(message := (await next_message).message, RolloutFinished):
            if isinstance(message, CallRecorded):
                calls.append(message)
            next_message = asyncio.ensure_future(anext(tap))
    return message, sorted(calls, key=lambda call: call.seq)


def prompt_delta(call: CallRecorded) -> list[int]:
    return list(memoryview(call.prompt_delta).cast("I"))


def agent_log(stack: LiveStack) -> str:
    return "".join(file.read_text(errors="replace") for file in stack.folder.glob("rollouts/*/agent.log"))


def computer(**arguments: Any) -> list[Call]:
    return [Call(name="computer", arguments=arguments)]


FORM = [
    computer(action="click", x=280, y=165),
    computer(action="type", text="heron"),
    computer(action="click", x=4000, y=210),
    computer(action="click", x=400, y=210),
    computer(action="done"),
]


SETTINGS = [
    computer(action="key", keys="Tab Tab space"),  # the tab Display
    computer(action="key", keys="Tab Tab Tab space space space"),  # the letters three steps smaller
    computer(action="key", keys="shift+Tab shift+Tab space"),  # the tab Mail
    computer(action="key", keys="Tab Tab Tab space"),
    computer(action="key", keys="Tab Tab Tab Tab space"),  # Apply
    computer(action="done"),
]
"""The settings of the family's task, by the keyboard alone: where things stand depends on the fonts that there are."""


async def test_the_computer_agent_completes_a_recorded_rollout(tmp_path: Path) -> None:
    need("computer")
    need_tk()
    script = Script(rules=[Rule(calls=[i], tool_calls=calls) for i, calls in enumerate([*FORM, *SETTINGS], 1)])
    (tmp_path / "config.json").write_text(json.dumps({"image_token_id": tokenizer.IMAGE}))
    config = write_config(tmp_path, script=script, max_model_len=32768)
    async with live_stack(config, "--set", f"engine.model={tmp_path}") as stack:
        outcome, calls = await run(stack, COMPUTER_TASK, "computer")
        settings, of_settings = await run(stack, SETTINGS_TASK, "computer", "settings")
        log = agent_log(stack)
    assert (outcome.reward, settings.reward) == (1, 1), log
    assert [call.seq for call in of_settings] == [1, 2, 3, 4, 5, 6]
    assert len({call.media[0].sha256 for call in of_settings}) >= 5
    assert [call.seq for call in calls] == [1, 2, 3, 4, 5]
    assert [call.parent_status for call in calls] == ["root"] + ["extends"] * 4
    for call in calls:  # each brings one more screenshot
        (picture,) = call.media
        start = picture.start - call.parent_len
        assert prompt_delta(call)[start : start + picture.length] == [tokenizer.IMAGE] * tokenizer.IMAGE_TOKENS
    assert len({call.media[0].sha256 for call in calls}) >= 3
    assert "x must be a whole number from 0 to 1023" in tokenizer.decode(prompt_delta(calls[3]))


def answer(*actions: dict[str, Any], **more: Any) -> str:
    """What browser-use expects a model to say; it asks for a plan after a while."""
    thought = {"thinking": "", "evaluation_previous_goal": "", "memory": "", "next_goal": "", **more}
    return msgspec.json.encode(thought | {"action": actions}).decode()


VERDICT = msgspec.json.encode({"reasoning": "", "verdict": True, "failure_reason": ""}).decode()
SITE = [
    Rule(calls=[1], text=answer({"navigate": {"url": "http://site.test/notes.html", "new_tab": False}})),
    Rule(calls=[2], text=answer({"navigate": {"url": "http://site.test/", "new_tab": False}})),
    Rule(
        calls=[3], find=r"(?s)\[(\d+)\]<input .*\[(\d+)\]<button",
        text=answer({"input": {"index": "I", "text": "heron"}}, {"click": {"index": "B"}})
        .replace('"I"', r"\1").replace('"B"', r"\2"),
    ),
    Rule(calls=[4], text=answer({"done": {"text": "sent", "success": True}})),
    Rule(calls=[5], text=VERDICT),
]  # fmt: skip


def click(index: str) -> dict[str, Any]:
    return {"click": {"index": index}}


SEARCH = "http://site.test/search?q=curlew+lighthouse"
WIKI = [
    Rule(calls=[6], text=answer({"navigate": {"url": SEARCH, "new_tab": False}}, plan_update=["find the year", "send it"])),
    Rule(calls=[7], find=r"\[(\d+)\]<a [^\n]*\n\s*Curlew Lighthouse\n", text=answer(click("L")).replace('"L"', r"\1")),
    Rule(calls=[8], find=r"(?s)designed by.*?\[(\d+)\]<a ", text=answer(click("L")).replace('"L"', r"\1")),
    Rule(
        calls=[9], find=r"was born in (\d+)",
        text=answer({"navigate": {"url": "http://site.test/desk", "new_tab": False}}, memory="found in Y").replace("Y", r"\1"),
    ),
    Rule(
        calls=[10], find=r"(?s)found in (\d+).*\[(\d+)\]<input .*\[(\d+)\]<button",
        text=answer({"input": {"index": "I", "text": "Y"}}, click("B"))
        .replace('"Y"', r'"\1"').replace('"I"', r"\2").replace('"B"', r"\3"),
    ),
    Rule(calls=[11], text=answer({"done": {"text": "sent", "success": True}})),
    Rule(calls=[12], text=VERDICT),
]  # fmt: skip


async def test_browser_use_completes_a_recorded_rollout(tmp_path: Path) -> None:
    need("browser-use")
    async with live_stack(write_config(tmp_path, script=Script(rules=SITE + WIKI), max_model_len=131072)) as stack:
        outcome, calls = await run(stack, BROWSER_TASK, "browser-use")
        wiki, of_wiki = await run(stack, WIKI_TASK, "browser-use", "wiki")
        log = agent_log(stack)
    assert (outcome.reward, wiki.reward) == (1, 1), log
    assert [call.role for call in of_wiki] == ["main"] * 6 + ["judge"]
    assert "/run/" not in log  # what follows in addresses is the rollout's secret
    assert [call.seq for call in calls] == [1, 2, 3, 4, 5]
    assert not any(call.constrained for call in calls)
    prompts = [prompt_delta(call) for call in calls]
    assert all(tokenizer.IMAGE in prompt for prompt in prompts[1:])
    assert "The word of the day is" in tokenizer.decode(prompts[1])
    assert [call.role for call in calls] == ["main"] * 4 + ["judge"]


@pytest.mark.parametrize("domain", ["computer", "browser"])
def test_the_example_tasks_are_worth_nothing_until_they_are_solved(domain: str, tmp_path: Path) -> None:
    if domain == "computer":
        need("computer")
        need_tk()

    def rewards(task: Path) -> tuple[str, str, str]:
        bench = Workbench(task, tmp_path / task.name)
        before = bench.score()
        bench.run("solution/solve.sh")
        return task.name, before.strip(), bench.score().strip()

    tasks = list_tasks(REPO / "examples" / domain / "tasks")
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(rewards, tasks)) == [(task.name, "0", "1") for task in tasks]
    assert len(tasks) == {"computer": 5, "browser": 10}[domain]
