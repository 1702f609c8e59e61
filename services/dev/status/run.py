"""The verb: looks once, or again and again."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
from rich.console import Console
from rich.live import Live

from services.dev.signals import until_signal
from services.dev.stack import find_running
from services.dev.status.look import look
from services.dev.status.model import EXPECTED, Status
from services.dev.status.show import render
from shared.config import Config
from shared.errors import ConfigError

EVERY_S = 2.0
Look = Callable[[], Awaitable[Status]]


async def status(root: Path, run_id: str, config: Config | None, *, as_json: bool, watch: bool) -> int:
    """Prints how a deployment does; returns 1 if something of it is broken.

    Args:
        root: folder of the runs.
        run_id: the run to look at; empty takes the newest that runs.
        config: of a deployment that is not of this machine; None for one that is.
        as_json: a line of JSON instead of text.
        watch: until Ctrl-C.

    Raises:
        ConfigError: no such run is alive, or the configuration names none.
    """
    asked = _deployed(config, run_id) if config else _own(root, run_id)
    if watch:
        return await until_signal(_watch(asked, as_json), lambda: None)
    found = await asked()
    _print_json(found) if as_json else Console(highlight=False).print(render(found))
    return 1 if found.problems else 0


def _own(root: Path, run_id: str) -> Look:
    config, running = find_running(root, run_id)
    os.environ.update(running.env)
    folder = root / config.run.id
    expected = [name for name in (*EXPECTED, "synth") if name in running.pids]
    return lambda: look(config, folder, expected)


def _deployed(config: Config, run_id: str) -> Look:
    named = msgspec.structs.replace(config, run=msgspec.structs.replace(config.run, id=run_id or config.run.id))
    if not (named.run.id and named.bus.url and named.store.url):
        raise ConfigError("a deployment is found by its run.id, bus.url and store.url: set them in the file or with --set")
    return lambda: look(named)


async def _watch(asked: Look, as_json: bool) -> int:
    if as_json:
        while True:
            _print_json(await asked())
            await asyncio.sleep(EVERY_S)
    with Live(console=Console(highlight=False), screen=True, auto_refresh=False) as live:
        while True:
            live.update(render(await asked()), refresh=True)
            await asyncio.sleep(EVERY_S)


def _print_json(found: Status) -> None:
    sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
    sys.stdout.flush()
