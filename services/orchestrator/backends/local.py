"""Sandboxes on this machine: a runner is a process of it.

A runner holds the lock on its log file for as long as it lives: it inherits the locked file, so there is no moment at which
it runs unseen, and no process number that may since belong to somebody else.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import socket
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from services.orchestrator.backends.commands import entering, run, stream, tail
from services.orchestrator.backends.port import LOG_BYTES, Box, Ran, Seen
from services.orchestrator.backends.processes import KILL_S, Process, held, kill_tree, locked, open_process, sandboxed, send
from services.orchestrator.backends.spawner import Spawner
from services.orchestrator.backends.tars import pack, pack_one, unpack
from services.orchestrator.isolation import resolve_isolation
from services.orchestrator.records import LOG, SPEC, STATUS, replace_file, rollouts_folder
from services.orchestrator.sandbox import Isolation, Sandbox
from services.orchestrator.sandboxes import Sandboxes, sandboxes_folder
from services.orchestrator.spec import FINAL, Spec, Status, phase_of
from shared.config import Config
from shared.errors import SandboxError

POLL_S = 0.01
COPY_S = 300.0
_SECTIONS = ("runner", "agent", "verify")


class LocalBackend:
    """Runners whose records lie in the run folder, one folder a session; their sandboxes lie under `orchestrator.work_root`.

    Args:
        config: resolved configuration.
        isolation: kind of sandbox; found out by default.
    """

    kind = "local"

    def __init__(self, config: Config, isolation: Isolation | None = None) -> None:
        self._config = config
        self._isolation = isolation
        self._records = rollouts_folder(config)
        self._runners: dict[str, Process] = {}
        self._adopting: dict[str, asyncio.Task[None]] = {}
        self._ending: dict[str, float] = {}
        self._listeners: set[asyncio.Queue[Seen]] = set()
        self._opened = False

    async def open(self) -> None:
        """See `Backend.open`."""
        settings = self._config.orchestrator
        isolation = self._isolation
        if isolation is None:
            isolation = await asyncio.to_thread(resolve_isolation, settings)
        self._sandboxes = Sandboxes(sandboxes_folder(self._config), isolation)
        self._spawner = Spawner(isolation.network)
        self.kind = isolation.kind
        self._opened = True

    def place(self, name: str) -> tuple[Isolation, Path]:
        """Isolation and folder of a session's sandbox. Only once this is open."""
        return self._sandboxes.isolation, self._sandboxes.folder(name)

    async def start(self, box: Box) -> None:
        """See `Backend.start`."""
        sandbox = self._sandboxes.folder(box.name)
        try:
            sandbox.mkdir()
            replace_file(box.folder / SPEC, msgspec.json.encode(box.spec))
        except FileExistsError:
            return
        except OSError as e:
            raise SandboxError(f"the sandbox of {box.name} could not be made: {e}") from e
        try:
            self._register(box.name, self._spawn(box.folder))
        except ProcessLookupError:
            pass  # it died at once, and is found dead
        except OSError as e:
            sandbox.rmdir()
            raise SandboxError(f"the runner of {box.name} could not be started: {e}") from e
        self._tell(box.name)

    async def present(self) -> list[Seen]:
        """See `Backend.present`."""
        return [self._look(name) for name in self._sandboxes.names()]

    async def watch(self) -> AsyncIterator[Seen]:
        """See `Backend.watch`."""
        news: asyncio.Queue[Seen] = asyncio.Queue()
        self._listeners.add(news)
        try:
            for seen in await self.present():
                yield seen
            while True:
                yield await news.get()
        finally:
            self._listeners.discard(news)

    async def end(self, name: str, grace_s: float) -> None:
        """See `Backend.end`."""
        self._ending[name] = grace_s
        if not self._lives(name):
            del self._ending[name]
        elif runner := self._runners.get(name):
            self._ask_to_end(name, runner)

    async def remove(self, name: str) -> None:
        """See `Backend.remove`."""
        if self._lives(name):
            if adopting := self._adopting.get(name):
                await adopting
            if runner := self._runners.get(name):
                await asyncio.to_thread(kill_tree, held(runner))
            await self._gone(name)
        await asyncio.to_thread(self._sandboxes.remove, name)
        (self._records / name / SPEC).unlink(missing_ok=True)  # the rollout's secret is in it

    async def logs(self, name: str) -> bytes:
        """See `Backend.logs`."""
        files = {section: self._records / name / f"{section}.log" for section in _SECTIONS}
        parts = [b"--- %s ---\n%s" % (s.encode(), file.read_bytes()) for s, file in files.items() if file.exists()]
        return b"".join(parts)[:LOG_BYTES]

    async def copy_in(self, name: str, source: Path, target: str) -> None:
        """See `Backend.copy_in`."""
        with tempfile.TemporaryFile() as archive:
            await asyncio.to_thread(pack, source, archive)
            archive.seek(0)
            argv = ["/bin/sh", "-c", 'mkdir -p "$1" && exec tar -xf - -C "$1" --no-same-owner', "sh", target]
            ran = await run(*self._inside(name, argv), COPY_S, archive.fileno())
        if ran.exit_code:
            raise SandboxError(
                f"{name}: {source} could not be copied to {target}: {ran.output[-300:].decode(errors='replace')}"
            )

    async def copy_out(self, name: str, source: str, target: Path) -> None:
        """See `Backend.copy_out`."""
        if not self._lives(name):
            with tempfile.TemporaryFile() as archive:
                await asyncio.to_thread(pack_one, self._left(name, source), Path(source).name, archive)
                archive.seek(0)
                await asyncio.to_thread(unpack, archive, target)
            return
        folder, _, entry = source.rstrip("/").rpartition("/")
        argv = ["/bin/sh", "-c", 'exec tar -cf - -C "$1" -- "$2" 2>/dev/null', "sh", folder or "/", entry]
        with tempfile.TemporaryFile() as archive:
            if await stream(*self._inside(name, argv), COPY_S, archive.write):
                raise SandboxError(f"{name}: there is no {source}, or it cannot be read")
            archive.seek(0)
            await asyncio.to_thread(unpack, archive, target)

    async def run(self, name: str, argv: list[str], timeout_s: float) -> Ran:
        """See `Backend.run`."""
        return await run(*self._inside(name, argv), timeout_s)

    async def close(self) -> None:
        """See `Backend.close`."""
        if not self._opened:
            return
        self._spawner.close()
        for task in list(self._adopting.values()):
            task.cancel()
        await asyncio.gather(*self._adopting.values(), return_exceptions=True)
        if not any(self._lives(name) for name in self._sandboxes.names()):
            self._sandboxes.close()
        for name in list(self._runners):
            self._forget(name)

    async def _gone(self, name: str) -> None:
        try:
            async with asyncio.timeout(KILL_S):
                while self._lives(name):  # noqa: ASYNC110 - it lies outside of this process
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise SandboxError(f"the runner of {name} was killed, but is not gone after {KILL_S:g} s") from None

    def _spawn(self, folder: Path) -> Process:
        log = os.open(folder / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
            pid = self._spawner.spawn(folder / SPEC, log)
            return Process(pid, os.pidfd_open(pid))
        finally:
            os.close(log)

    def _lives(self, name: str) -> bool:
        """Whether a sandbox's runner lives; one that somebody else started is adopted then."""
        if name in self._runners:
            return True
        lives = locked(self._records / name / LOG)
        if lives and name not in self._adopting:
            self._adopting[name] = asyncio.create_task(self._adopt(name))
        return lives

    async def _adopt(self, name: str) -> None:
        """Takes a runner over that somebody else started. Its number stands in its status soon after its start."""
        folder = self._records / name
        try:
            while locked(folder / LOG):
                status = _read_status(folder)
                if status is not None and (process := open_process(status["pid"])) is not None:
                    if locked(folder / LOG):  # it still lived when its number was looked up, so the number is its own
                        self._register(name, process)
                        return
                    os.close(process.fd)
                await asyncio.sleep(POLL_S)
            self._tell(name)
        finally:
            del self._adopting[name]
            self._ending.pop(name, None)

    def _register(self, name: str, runner: Process) -> None:
        self._runners[name] = runner
        asyncio.get_running_loop().add_reader(runner.fd, self._ended, name)
        if name in self._ending:
            self._ask_to_end(name, runner)

    def _ask_to_end(self, name: str, runner: Process) -> None:
        send(runner, signal.SIGTERM)
        asyncio.get_running_loop().call_later(self._ending.pop(name), self._kill, name, runner)

    def _kill(self, name: str, runner: Process) -> None:
        if self._runners.get(name) is runner:
            asyncio.get_running_loop().run_in_executor(None, kill_tree, held(runner))

    def _ended(self, name: str) -> None:
        self._forget(name)
        self._tell(name)

    def _forget(self, name: str) -> None:
        runner = self._runners.pop(name)
        asyncio.get_running_loop().remove_reader(runner.fd)
        os.close(runner.fd)

    def _tell(self, name: str) -> None:
        seen = self._look(name)
        for news in self._listeners:
            news.put_nowait(seen)

    def _look(self, name: str) -> Seen:
        if self._lives(name):
            return Seen(name, "run", where=socket.gethostname())
        folder = self._records / name
        try:
            status = _read_status(folder)
        except SandboxError as e:
            return Seen(name, "ended", error=e)
        if status is None or status["phase"] not in FINAL:
            said = tail(folder / LOG) or "it said nothing"
            phase = status and status["phase"]
            return Seen(name, "ended", error=SandboxError(f"the runner of {name} died in phase {phase!r}: {said}"))
        return Seen(name, "ended", status=status, where=socket.gethostname())

    def _left(self, name: str, source: str) -> Path:
        """Where something of a sandbox that has ended lies. Links that its agent made lead nowhere else."""
        top = self._sandboxes.folder(name)
        try:
            spec = msgspec.json.decode((self._records / name / SPEC).read_bytes(), type=Spec)
        except OSError as e:
            raise SandboxError(f"{name}: no such sandbox was here") from e
        env, host = spec["phases"][0]["env"], Sandbox(self._sandboxes.isolation, top, "/").host("agent")
        seen = {env["APP_DIR"]: host.app, env["LOGS_DIR"]: host.logs, env["HOME"]: host.home, env["TMPDIR"]: host.tmp}
        for folder, there in seen.items():
            path = Path(there, os.path.relpath(source, folder))
            if path.resolve().is_relative_to(Path(there).resolve()) and not Path(there).is_symlink():
                return path
        raise SandboxError(f"{name}: a sandbox that has ended holds no {source}")

    def _inside(self, name: str, argv: list[str]) -> tuple[list[str], dict[str, str]]:
        runner = self._runners.get(name)
        if runner is None:
            raise SandboxError(f"{name}: no such sandbox runs here")
        spec = msgspec.json.decode((self._records / name / SPEC).read_bytes(), type=Spec)
        env = phase_of(spec, "agent")["env"]
        pid = sandboxed(runner.pid)
        if self.kind == "bubblewrap" and pid is None:
            raise SandboxError(f"{name}: nothing runs in this sandbox at the moment")
        return entering(pid, self._sandboxes.isolation, env["APP_DIR"], argv), env


def _read_status(folder: Path) -> Status | None:
    try:
        return msgspec.json.decode((folder / STATUS).read_bytes(), type=Status)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as e:
        raise SandboxError(f"{folder / STATUS}: {e}") from e
