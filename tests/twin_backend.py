"""The twin of the backends of sandboxes: sandboxes in memory, whose agents are played. For tests of what drives backends.

`Place` is where the sandboxes are; a `TwinBackend` is one orchestrator's way to them, so that a successor finds them again.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

from services.orchestrator.backends.port import Box, Ran, Seen, Stage
from services.orchestrator.spec import Status
from shared.errors import ForgeError, QuotaError, SandboxAway, SandboxError
from tests.unit.orchestrator.statuses import phase_status

WORKDIR = "/app"
IMAGE = "sha256:twin"


@dataclass
class Play:
    """What a sandbox does.

    Attributes:
        script: of its agent: `echo`, `sleep`, `cat`, `exit`, `trap '' TERM`, with `> file`, joined by `;`.
        before: stages that it goes through, with the seconds that each takes, before it runs.
        error: that it ends with instead of running.
    """

    script: str = ""
    before: tuple[tuple[Stage, float], ...] = ()
    error: ForgeError | None = None


@dataclass(eq=False)
class _Sandbox:
    box: Box
    play: Play
    seen: Seen
    files: dict[str, str] = field(default_factory=dict)
    printed: str = ""
    deaf: bool = False
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


class Place:
    """Sandboxes by name.

    Attributes:
        plays: what a box does; by default what its spec's agent says.
        started: names, each as often as a sandbox of it was made.
        away: nothing answers.
        full: there is no room for another one.
        refused: how often that was said.
        grace_s: of the runners.
    """

    def __init__(self, plays: Callable[[Box], Play] | None = None) -> None:
        self.plays = plays or (lambda box: Play(box.spec["phases"][0]["argv"][-1]))
        self.started: list[str] = []
        self.away = self.full = False
        self.refused = 0
        self.grace_s = 0.1
        self.listeners: set[asyncio.Queue[Seen]] = set()
        self._sandboxes: dict[str, _Sandbox] = {}

    def get(self, name: str) -> _Sandbox | None:
        """A sandbox that is there.

        Raises:
            SandboxAway: nothing answers.
        """
        if self.away:
            raise SandboxAway("the twin is away")
        return self._sandboxes.get(name)

    def all(self) -> list[_Sandbox]:
        """All that are there. Raises as `get` does."""
        self.get("")
        return list(self._sandboxes.values())

    def make(self, box: Box) -> None:
        """Makes a sandbox.

        Raises:
            QuotaError: there is no room.
        """
        if self.full:
            self.refused += 1
            raise QuotaError("the twin is full")
        sandbox = _Sandbox(box, self.plays(box), Seen(box.name, "schedule"))
        self._sandboxes[box.name] = sandbox
        self.started.append(box.name)
        sandbox.task = asyncio.create_task(self._live(sandbox))

    async def take_away(self, name: str) -> None:
        """Kills a sandbox, and nothing of it is left."""
        sandbox = self._sandboxes.pop(name, None)
        if sandbox is None or sandbox.task is None:
            return
        sandbox.task.cancel()
        await asyncio.gather(sandbox.task, return_exceptions=True)
        if sandbox.seen.stage != "ended":
            self._tell(sandbox, Seen(name, "ended", error=SandboxError("it vanished")))

    async def close(self) -> None:
        """Takes all away."""
        for name in list(self._sandboxes):
            await self.take_away(name)

    async def kill(self, sandbox: _Sandbox) -> None:
        """Ends a sandbox as if by SIGKILL."""
        if sandbox.seen.stage != "ended" and sandbox.task:
            sandbox.task.cancel()
            self._tell(sandbox, Seen(sandbox.box.name, "ended", error=SandboxError("it was killed")))

    async def _live(self, sandbox: _Sandbox) -> None:
        name, play = sandbox.box.name, sandbox.play
        for stage, seconds in play.before:
            self._tell(sandbox, Seen(name, stage))
            await asyncio.sleep(seconds)
        if play.error:
            self._tell(sandbox, Seen(name, "ended", error=play.error))
            return
        self._tell(sandbox, Seen(name, "run", where="twin"))
        status = await self._phases(sandbox)
        self._tell(sandbox, Seen(name, "ended", status=status, where="twin", image=IMAGE))

    async def _phases(self, sandbox: _Sandbox) -> Status:
        clock, agent = asyncio.get_running_loop().time, sandbox.box.spec["phases"][0]
        began = clock()
        playing = asyncio.create_task(_play(sandbox))
        asking = asyncio.create_task(sandbox.asked.wait())
        try:
            await asyncio.wait({playing, asking}, timeout=agent["timeout_s"], return_when=asyncio.FIRST_COMPLETED)
            if sandbox.asked.is_set() and not playing.done():
                await asyncio.wait({playing}, timeout=self.grace_s if sandbox.deaf else 0)
                return Status(pid=1, phase="cancelled", error=None, phases={})
        finally:
            code = playing.result() if playing.done() and not playing.cancelled() else -15
            playing.cancel()
            asking.cancel()
        reward = "1\n" if sandbox.files.get(f"{WORKDIR}/out.txt") == "hello\n" else "0\n"
        ended = phase_status(exit_code=code, timed_out=code == -15, seconds=clock() - began)
        verified = phase_status(collected={"reward.txt": reward})
        return Status(pid=1, phase="done", error=None, phases={"agent": ended, "verify": verified})

    def _tell(self, sandbox: _Sandbox, seen: Seen) -> None:
        sandbox.seen = seen
        for listener in self.listeners:
            listener.put_nowait(seen)


async def _play(sandbox: _Sandbox) -> int:
    sandbox.printed += "--- agent ---\n"
    for command in sandbox.play.script.split(";"):
        match shlex.split(command):
            case ["trap", "", "TERM"]:
                sandbox.deaf = True
            case ["sleep", seconds]:
                await asyncio.sleep(float(seconds))
            case ["exit", code]:
                return int(code)
            case ["cat", path]:
                sandbox.printed += sandbox.files[_absolute(path)]
            case ["echo", *words, ">", path]:
                sandbox.files[_absolute(path)] = " ".join(words) + "\n"
            case ["echo", *words]:
                sandbox.printed += " ".join(words) + "\n"
    return 0


def _absolute(path: str) -> str:
    return path if path.startswith("/") else f"{WORKDIR}/{path}"


class TwinBackend:
    """See `Backend`."""

    kind = "twin"

    def __init__(self, place: Place) -> None:
        self._place = place

    async def open(self) -> None:
        self._place.get("")

    async def start(self, box: Box) -> None:
        if self._place.get(box.name) is None:
            self._place.make(box)

    async def present(self) -> list[Seen]:
        return [sandbox.seen for sandbox in self._place.all()]

    async def watch(self) -> AsyncIterator[Seen]:
        news: asyncio.Queue[Seen] = asyncio.Queue()
        self._place.listeners.add(news)
        try:
            for seen in await self.present():
                yield seen
            while True:
                yield await news.get()
        finally:
            self._place.listeners.discard(news)

    async def end(self, name: str, grace_s: float) -> None:
        if sandbox := self._place.get(name):
            sandbox.asked.set()
            if sandbox.seen.stage != "run":
                await self._place.kill(sandbox)

    async def remove(self, name: str) -> None:
        self._place.get(name)
        await self._place.take_away(name)

    async def logs(self, name: str) -> bytes:
        sandbox = self._place.get(name)
        return sandbox.printed.encode() if sandbox else b""

    async def copy_in(self, name: str, source: Path, target: str) -> None:
        files = self._running(name).files
        for file in source.rglob("*"):
            if file.is_file():
                files[f"{target}/{file.relative_to(source)}"] = file.read_text()

    async def copy_out(self, name: str, source: str, target: Path) -> None:
        top = source.rpartition("/")[0]
        sandbox = self._place.get(name)
        found = {p: t for p, t in (sandbox.files if sandbox else {}).items() if p == source or p.startswith(f"{source}/")}
        if not found:
            raise SandboxError(f"there is no {source}")
        for path, text in found.items():
            file = target / path.removeprefix(f"{top}/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

    async def run(self, name: str, argv: list[str], timeout_s: float) -> Ran:
        sandbox = self._running(name)
        script = argv[-1] if argv[0] == "/bin/sh" else shlex.join(argv)
        beside = _Sandbox(sandbox.box, Play(script), sandbox.seen, sandbox.files)
        try:
            async with asyncio.timeout(timeout_s):
                code = await _play(beside)
        except TimeoutError:
            raise SandboxError(f"the command did not end within {timeout_s} s") from None
        return Ran(code, beside.printed.removeprefix("--- agent ---\n").encode())

    async def close(self) -> None:
        with contextlib.suppress(SandboxAway):
            self._place.get("")

    def _running(self, name: str) -> _Sandbox:
        sandbox = self._place.get(name)
        if sandbox is None or sandbox.seen.stage != "run":
            raise SandboxError(f"{name}: no such sandbox runs")
        return sandbox
