"""What the pages of docs/ tell a reader to type, typed: their files are written, their blocks run whole and in order.

`RUN` in a block is the id of the run at hand. The model is scripted; all else is real.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from shared.events import Message, RolloutCancel, RolloutStart
from tests.e2e.stacks import LiveStack, hear_interrupts, live_stack, write_config
from tests.e2e.test_stack_rollouts import closed, watch, write_task
from tests.engine.script import Rule, Script
from tests.unit.docs.pages import REPO, blocks
from tests.waiting import until

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(600)]

MARK = "tests/e2e/test_docs.py"
ON_A_STACK = ("quickstart.md", "troubleshooting.md", "archive.md", "exports.md")
WATCHING = "observability.md"

SUM = "awk '{ sum += $1 } END { print sum }' numbers.txt > sum.txt"
SCRIPT = Script(rules=[Rule(contains="(no output)", text="done"), Rule(contains="Answer with one shell command", text=SUM)])


async def typed(page: str, folder: Path, run: str = "RUN") -> list[str]:
    """Runs the marked blocks of a page, each in a bash that ends at the first error. Returns what they print."""
    said = []
    for block in blocks():
        if block.page == page and MARK in block.files:
            code, out = await bash(re.sub(r"\bRUN\b", run, block.text), folder)
            assert code == 0, f"{block}: {out}"
            said.append(out)
    return said


async def bash(text: str, folder: Path) -> tuple[int, str]:
    env = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}", "PYTHONPATH": str(REPO), "COLUMNS": "200"}
    process = await asyncio.create_subprocess_exec(
        "bash",
        "-euo",
        "pipefail",
        "-c",
        text,
        cwd=folder,
        env=env,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode is not None
    return process.returncode, out.decode()


def put_command(folder: Path) -> None:
    """`openforge` of this checkout."""
    (folder / "bin").mkdir()
    (command := folder / "bin" / "openforge").write_text(f'#!/bin/sh\nexec {sys.executable} -m services.cli "$@"\n')
    command.chmod(0o755)


def put_harness(folder: Path) -> None:
    """The adapter and the program of the page."""
    (folder / "harnesses").mkdir()
    for name, language in (("mine.toml", "toml"), ("agent.py", "python")):
        text = next(b.text for b in blocks() if b.page == "own-harness.md" and b.language == language)
        (folder / "harnesses" / name).write_text(text)


async def test_a_task_and_a_harness_are_made_as_the_pages_say(tmp_path: Path) -> None:
    put_command(tmp_path)
    put_harness(tmp_path)
    write_config(tmp_path, script=SCRIPT)
    _, checked, tried = await typed("own-tasks.md", tmp_path)
    assert "1 good; null 0: 1 of 1; oracle 1: 1 of 1" in checked
    assert "reward 0" in tried
    [solved] = await typed("own-harness.md", tmp_path)
    assert "mine" in solved
    assert "reward 1" in solved


async def test_a_run_is_looked_at_as_the_pages_say(tmp_path: Path) -> None:
    put_command(tmp_path)
    async with live_stack(write_config(tmp_path)) as stack:
        await train_group(stack, tmp_path)
        run = stack.config.run.id
        for page in ON_A_STACK:
            said = await typed(page, tmp_path, run)
            assert said, page
            assert any(run in out or "s1-g00" in out for out in said), said
        followed, taps, played = [b.text for b in blocks() if b.page == WATCHING and MARK in b.files]
        code, out = await bash(followed, tmp_path)
        assert (code, "rollout.finished" in out) == (0, True), out
        async with until_ctrl_c(taps, tmp_path) as files:
            await until_heard(stack, [*files, tmp_path / "tap.jsonl"], tmp_path / "a" / "task")
    async with until_ctrl_c(played, tmp_path) as files:
        await until(lambda: "messages are on the bus" in files[0].read_text(), 60)


@asynccontextmanager
async def until_ctrl_c(lines: str, folder: Path) -> AsyncIterator[list[Path]]:
    """Runs the commands of some lines all at once, and ends them with Ctrl-C. Yields the files with what those say that do not
    record it."""
    commands = [shlex.split(line, comments=True) for line in lines.splitlines()]
    files = [folder / f"{command[1]}-{n}.txt" for n, command in enumerate(commands)]
    processes = [await begin(command, folder, file) for command, file in zip(commands, files, strict=True)]
    try:
        yield [file for command, file in zip(commands, files, strict=True) if "--record" not in command]
        for process in processes:
            process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(asyncio.gather(*(p.wait() for p in processes)), 30) == [130] * len(processes)
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()


async def until_heard(stack: LiveStack, files: list[Path], task: Path) -> None:
    """Has things happen until all files say something: nobody says when a tap listens."""
    group = f"{stack.config.run.id}-s1-g00"
    for n in range(30):
        await stack.bus.publish(RolloutCancel(run_id=stack.config.run.id, rollout_id=f"{group}-r0", group_id=group))
        await start_rollout(stack, f"{group}-more{n}", 0, 1, task)
        await asyncio.sleep(3)
        if all(file.exists() and file.stat().st_size for file in files):
            return
    raise AssertionError(f"not all of {files} say something")


async def begin(command: list[str], folder: Path, said: Path) -> asyncio.subprocess.Process:
    with said.open("wb") as file:
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "services.cli", *command[1:], cwd=folder, env={**os.environ, "PYTHONPATH": str(REPO)},
            stdout=file, stderr=asyncio.subprocess.STDOUT, preexec_fn=hear_interrupts,
        )  # fmt: skip


async def train_group(stack: LiveStack, folder: Path) -> None:
    """A group as the trainer starts it: of one task, solved in half of its rollouts."""
    run = stack.config.run.id
    seen: list[Message] = []
    tap = asyncio.create_task(watch(stack, seen))
    solved = write_task(folder / "a", "task", "cat seed.txt > out.txt", "seed")
    missed = write_task(folder / "b", "task", "echo no > out.txt", "seed")
    group = f"{run}-s1-g00"
    for r, task in enumerate((solved, missed, solved, missed)):
        await start_rollout(stack, group, r, 4, task)
    await until(lambda: closed(seen) == {group}, 60)
    tap.cancel()


async def start_rollout(stack: LiveStack, group: str, number: int, size: int, task: Path) -> None:
    start = RolloutStart(
        run_id=stack.config.run.id, rollout_id=f"{group}-r{number}", group_id=group, group_size=size, task_dir=str(task),
        harness="react",
    )  # fmt: skip
    await stack.bus.publish(start)
