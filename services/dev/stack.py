"""A whole stack as one thing that is entered and left: servers, engine, services, and a connection to its bus."""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import msgspec

from services.app import open_bus
from services.dev.plan import KEYS, Plan
from services.dev.scratch import scratch
from services.dev.supervisor import Supervisor
from services.dev.view import View
from shared.bus import Bus
from shared.config import Config, load_config
from shared.errors import ConfigError, ForgeError
from shared.events import RunStepped
from shared.keys import CLI
from shared.subjects import tap_pattern

_MB = 1024 * 1024
_START_S = 60.0
_DISK_CHECK_S = 2.0


class Running(msgspec.Struct, frozen=True):
    """What a living stack leaves in ``<run folder>/stack.json`` (mode 0600), for the commands that attach to it.

    Attributes:
        pid: of the supervisor.
        pids: of its children by name.
        env: secrets of the stack.
    """

    pid: int
    pids: dict[str, int]
    env: dict[str, str]


class Stack:
    """The processes of a plan, while the context lasts. `bus` is connected inside it."""

    bus: Bus

    def __init__(self, plan: Plan, view: View) -> None:
        self.plan = plan
        self.config: Config = plan.config
        self._view = view
        self._tasks: list[asyncio.Task[None]] = []
        self._step = 0
        self._scratch = ExitStack()
        self.supervisor = Supervisor(view.note)

    async def __aenter__(self) -> Stack:
        try:
            await self._up()
        except BaseException:
            await self._down()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._down()

    async def engine_ready(self) -> None:
        """Returns when all engines answer.

        Raises:
            StackError: one died or did not come up in time.
        """
        for spec in self.plan.engines:
            await self.supervisor.ready(spec.name, self.config.engine.start_timeout_s)

    async def _up(self) -> None:
        self._scratch.enter_context(scratch(self.plan.scratch))
        os.environ.update(self.plan.env)
        for spec in self.plan.servers:
            await self.supervisor.start(spec)
        for spec in self.plan.servers:
            await self.supervisor.ready(spec.name, _START_S)
        self.bus = await open_bus(self.config, CLI)
        self._tasks = [asyncio.create_task(self._watch_bus()), asyncio.create_task(self._watch_disk())]
        for spec in self.plan.services:
            await self.supervisor.start(spec)
        await self._start_engines()
        for spec in self.plan.services:
            await self.supervisor.ready(spec.name, _START_S)
        self._write_running()

    async def _down(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if hasattr(self, "bus"):
            await self.bus.close()
        await self.supervisor.stop()
        (self.plan.folder / "stack.json").unlink(missing_ok=True)
        shutil.rmtree(self.plan.folder / KEYS, ignore_errors=True)  # they are for servers that are gone
        self._scratch.close()

    async def _start_engines(self) -> None:
        if self.plan.serving_copy is not None:
            await self.supervisor.complete(self.plan.serving_copy)
        for spec in self.plan.engines:
            await self.supervisor.start(spec)

    async def _watch_bus(self) -> None:
        async for tapped in self.bus.tap(tap_pattern("", self.config.run.id)):
            if isinstance(tapped.message, RunStepped) and tapped.message.step > self._step:  # it may be told again
                self._step = tapped.message.step
                self.supervisor.thrives("trainer")
            if tapped.message is not None:
                self._view.on_message(tapped.message)

    async def _watch_disk(self) -> None:
        while not self.supervisor.failed.done():
            free = shutil.disk_usage(self.plan.folder).free // _MB
            if free < self.config.run.min_free_mb:
                self.supervisor.failed.set_result(_disk_full(self.plan.folder, free, self.config.run.min_free_mb))
            await asyncio.sleep(_DISK_CHECK_S)

    def _write_running(self) -> None:
        part = self.plan.folder / "stack.json.part"
        part.touch(mode=0o600)
        part.write_bytes(msgspec.json.encode(Running(os.getpid(), self.supervisor.pids(), self.plan.env)))
        part.replace(self.plan.folder / "stack.json")  # so that nobody reads half of it


def _disk_full(folder: Path, free: int, wanted: int) -> ForgeError:
    return ConfigError(
        f"the disk of {folder} is full: {free} MB free, run.min_free_mb asks for {wanted}; free some space "
        "(`openforge runs prune --keep 5`) and start again"
    )


def is_running(folder: Path) -> bool:
    """Whether the stack of a run folder is alive."""
    try:
        os.kill(msgspec.json.decode((folder / "stack.json").read_bytes(), type=Running).pid, 0)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return False
    return True


def find_running(root: Path, run_id: str = "") -> tuple[Config, Running]:
    """The configuration and secrets of a living stack: the one named, else the newest.

    Raises:
        ConfigError: there is none.
    """
    for file in sorted(root.glob(f"{run_id or '*'}/stack.json"), reverse=True):
        if is_running(file.parent):
            return load_config(file.parent / "config.json"), msgspec.json.decode(file.read_bytes(), type=Running)
    raise ConfigError(f"no running stack {run_id or ''} under {root}; start one with `openforge dev CONFIG`")
