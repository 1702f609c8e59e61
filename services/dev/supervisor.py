"""Keeps the processes of a stack alive, and ends all of them, whatever happens."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import Callable

import psutil

from services.dev.process import ProcessSpec, adopt_orphans, describe_exit, end, last_words, spawn
from shared.errors import ForgeError

log = logging.getLogger(__name__)
_SWEEP_S = 3.0
_REAP_S = 1.0
_POLL_S = 0.2
_OUT_OF_MEMORY = "if nobody killed it, the kernel did because memory ran out (`dmesg` says so)"


class StackError(ForgeError):
    """A process of the stack cannot be kept alive."""


class Supervisor:
    """Starts children, restarts those that may be restarted, and reports the first death that the run cannot survive.

    Args:
        note: told in one line whatever a person should know (a restart, say).
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._specs: dict[str, ProcessSpec] = {}
        self._keepers: dict[str, asyncio.Task[None]] = {}
        self._once_ready: set[str] = set()
        self._deaths: dict[str, list[float]] = {}
        self._stopping = False
        self.failed: asyncio.Future[ForgeError] = asyncio.get_running_loop().create_future()
        self._strangers = set(psutil.Process().children())  # not ours to end, nor to wait for
        self._adopted = adopt_orphans()
        self._reaper = asyncio.create_task(self._reap_orphans())

    def pids(self) -> dict[str, int]:
        """Process ids of the living children by name."""
        return {name: p.pid for name, p in self._processes.items() if p.returncode is None}

    async def start(self, spec: ProcessSpec) -> None:
        """Starts a child and keeps it.

        Raises:
            StackError: the program could not be started at all.
        """
        self._specs[spec.name] = spec
        self._processes[spec.name] = await self._spawn(spec)
        self._keepers[spec.name] = asyncio.create_task(self._keep(spec), name=f"keep {spec.name}")
        if spec.once_ready:
            self._keepers[f"{spec.name} ready"] = asyncio.create_task(self._note_ready(spec))

    async def complete(self, spec: ProcessSpec) -> None:
        """Runs a child to its end.

        Raises:
            StackError: it could not be started, or failed.
        """
        self._specs[spec.name] = spec
        self._processes[spec.name] = process = await self._spawn(spec)
        if code := await process.wait():
            raise _ended(spec, code)

    async def ready(self, name: str, timeout_s: float) -> None:
        """Returns when a child is ready.

        Raises:
            StackError: it died for good or was not ready in time.
        """
        spec, until = self._specs[name], time.monotonic() + timeout_s
        while spec.ready is not None and not await spec.ready():
            if self.failed.done():
                raise self.failed.result()
            if time.monotonic() > until:
                raise StackError(f"{name} was not ready within {timeout_s:.0f} s: {last_words(spec.log)} (log: {spec.log})")
            await asyncio.sleep(0.05)

    def thrives(self, name: str) -> None:
        """A child did what it is there for: its earlier deaths do not count any more."""
        self._deaths.pop(name, None)

    async def stop(self) -> None:
        """Ends all children, the last started first, then whatever they left behind. What ran before is left alone, and this
        process takes in orphans only if it did before."""
        self._stopping = True
        self._reaper.cancel()
        for keeper in self._keepers.values():
            keeper.cancel()
        for name in reversed(list(self._processes)):
            await end(self._processes[name], self._specs[name].grace_s)
        await asyncio.to_thread(_sweep, self._strangers)
        adopt_orphans(self._adopted)

    async def _keep(self, spec: ProcessSpec) -> None:
        while True:
            code = await self._processes[spec.name].wait()
            if self._stopping:
                return None
            if spec.whole:
                await end(self._processes[spec.name], 0)
            deaths = self._count_death(spec)
            hopeless = (spec.once_ready and spec.name not in self._once_ready) or (spec.unless_failed and code > 0)
            if not spec.restart or hopeless or deaths > spec.restarts:
                return self._fail(spec, code)
            self._note(f"{spec.name} died ({describe_exit(code)}) and was restarted")
            log.warning("%s died (%s), restarting", spec.name, describe_exit(code))
            await asyncio.sleep(spec.backoff_s * 2 ** (deaths - 1))
            self._processes[spec.name] = await self._spawn(spec)

    def _count_death(self, spec: ProcessSpec) -> int:
        now = time.monotonic()
        known = self._deaths.get(spec.name, [])
        self._deaths[spec.name] = [t for t in known if now - t < spec.window_s] + [now]
        return len(self._deaths[spec.name])

    async def _note_ready(self, spec: ProcessSpec) -> None:
        while spec.ready is not None and not await spec.ready():  # noqa: ASYNC110 - what a child does sets no event here
            await asyncio.sleep(_POLL_S)
        self._once_ready.add(spec.name)

    async def _reap_orphans(self) -> None:
        while True:
            await asyncio.sleep(_REAP_S)
            _reap(self._strangers, {p.pid for p in self._processes.values()})

    def _fail(self, spec: ProcessSpec, code: int) -> None:
        if not self.failed.done():
            self.failed.set_result(_ended(spec, code))

    async def _spawn(self, spec: ProcessSpec) -> asyncio.subprocess.Process:
        try:
            return await spawn(spec)
        except OSError as e:
            hint = "`openforge doctor` lists what is missing"
            raise StackError(f"{spec.name}: cannot start {spec.argv[0]}: {e.strerror}; {hint}") from e


def _ended(spec: ProcessSpec, code: int) -> StackError:
    words = _OUT_OF_MEMORY if code == -signal.SIGKILL else last_words(spec.log)
    return StackError(f"{spec.name} ended with {describe_exit(code)}{': ' + words if words else ''} (log: {spec.log})")


def _children(strangers: set[psutil.Process]) -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if child not in strangers]


def _family(process: psutil.Process) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return [process, *process.children(recursive=True)]
    return [process]


def _reap(strangers: set[psutil.Process], kept: set[int]) -> None:
    """Descendants whose parent died are handed to this process; those that ended would stay as zombies."""
    for child in _children(strangers):
        if child.pid not in kept:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child.pid, os.WNOHANG)


def _sweep(strangers: set[psutil.Process]) -> None:
    """Ends descendants that outlived their parents (they were handed to this process)."""
    left = [process for child in _children(strangers) for process in _family(child)]
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    _, alive = psutil.wait_procs(left, timeout=_SWEEP_S)
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(alive, timeout=_SWEEP_S)
