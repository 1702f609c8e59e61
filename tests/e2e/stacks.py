"""Real stacks for tests: the `openforge` command as a process, with the scripted engine in place of vLLM."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import msgspec
import psutil

from services.app import open_bus
from services.dev.stack import Running, find_running
from shared.bus import Bus
from shared.config import Config
from shared.keys import OPERATOR
from tests.engine.script import Script
from tests.waiting import until

REPO = Path(__file__).parents[2]
TASKS = REPO / "examples" / "lookup" / "tasks"


def write_config(folder: Path, extra: str = "", script: Script | None = None, max_model_len: int = 4096) -> Path:
    """A configuration whose engine is the scripted one. It logs what it sampled to ``folder/engine.jsonl``."""
    command = [
        sys.executable, "-m", "tests.engine.scripted", "--port", "{port}", "--log", str(folder / "engine.jsonl"),
        "--script", str(folder / "script.json"), "--max-model-len", str(max_model_len),
    ]  # fmt: skip
    (folder / "script.json").write_bytes(msgspec.json.encode(script or Script()))
    file = folder / "openforge.toml"
    file.write_text(
        f"""
[run]
root = "{folder}/runs"
[engine]
command = {command}
max_model_len = {max_model_len}
[tasks]
train = "{TASKS}/train"
heldout = "{TASKS}/heldout"
{extra}"""
    )
    return file


async def openforge(*args: str, timeout_s: float = 60) -> tuple[int, str]:
    """Runs the command to its end. Returns its exit status and all it printed."""
    process = await start(*args)
    out, _ = await asyncio.wait_for(process.communicate(), timeout_s)
    assert process.returncode is not None
    return process.returncode, out.decode()


async def start(*args: str) -> asyncio.subprocess.Process:
    """Starts the command; its output is on `stdout`."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "services.cli", *args, cwd=REPO, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "COLUMNS": "200"}, preexec_fn=hear_interrupts,
    )  # fmt: skip


def hear_interrupts() -> None:
    """Whoever runs the tests in the background has his shell ignore Ctrl-C, and all its children with it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def find_service(supervisor: int, name: str) -> psutil.Process:
    """The process of a service of a supervisor."""
    for p in psutil.Process(supervisor).children():
        with contextlib.suppress(psutil.NoSuchProcess):  # it ended meanwhile
            if p.cmdline()[-4:-2] == ["serve", name]:
                return p
    raise AssertionError(f"{name} does not run")


@dataclass
class LiveStack:
    """A stack that runs: its configuration, its supervisor, a connection to its bus."""

    config: Config
    running: Running
    process: asyncio.subprocess.Process
    bus: Bus
    folder: Path = field(init=False)

    def __post_init__(self) -> None:
        self.folder = Path(self.config.run.root) / self.config.run.id

    def descendants(self) -> list[psutil.Process]:
        """All processes below the supervisor, and the supervisor."""
        top = psutil.Process(self.process.pid)
        return [top, *top.children(recursive=True)]

    def service(self, name: str) -> psutil.Process:
        """The process of a service."""
        return find_service(self.process.pid, name)


def files_with(folder: Path, text: str) -> set[str]:
    """Files below a folder that hold a text: of a run folder these are logs, streams, and every write to the store."""
    files = (file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)) for file in files if text.encode() in file.read_bytes()}


async def check_secret(stack: LiveStack, session: str, secret: str) -> None:
    """The secret of a session that has ended is nowhere at rest, though much is told of the session."""
    assert {file.partition("/")[0] for file in files_with(stack.folder, session)} >= {"logs", "nats", "store"}
    await until(lambda: not files_with(stack.folder, secret), 30)  # its sandbox is removed once its end was told


def engine_of(stack: LiveStack, program: str) -> psutil.Process:
    """The process of the stack's engine, by a word of its command line."""
    return next(p for p in psutil.Process(stack.process.pid).children() if program in p.cmdline())


async def answers(url: str) -> bool:
    """Whether a URL is answered with 200."""
    try:
        async with aiohttp.ClientSession() as http, http.get(url) as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False


@asynccontextmanager
async def live_stack(file: Path, *args: str) -> AsyncIterator[LiveStack]:
    """`openforge dev` for as long as the context lasts; nothing of it may be left afterwards."""
    process = await start("dev", str(file), *args)
    stack = None
    try:
        config, running = await _wait_running(file.parent / "runs", process)
        os.environ.update(running.env)
        stack = LiveStack(config, running, process, await open_bus(config, OPERATOR))
        yield stack
    finally:
        alive = process.returncode is None
        family = stack.descendants() if stack and alive else []
        if stack:
            await stack.bus.close()
        if alive:
            process.send_signal(signal.SIGINT)
        out, _ = await asyncio.wait_for(process.communicate(), 40)
        left = [p for p in family if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
        assert not left, f"left behind: {left}\n{out.decode()}"


async def _wait_running(root: Path, process: asyncio.subprocess.Process) -> tuple[Config, Running]:
    await until(lambda: bool(list(root.glob("*/stack.json"))) or process.returncode is not None, 60)
    if process.returncode is not None:
        raise AssertionError((await process.communicate())[0].decode())
    return find_running(root)
