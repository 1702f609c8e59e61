"""`openforge start`: begins the run of a deployed stack, or looks at it again, and shows how it goes until it has ended."""

from __future__ import annotations

import asyncio

from rich.console import Console

from services.app import open_bus, run_folder
from services.dev.ends import carried_out, print_summary
from services.dev.signals import until_signal
from services.dev.view import View
from shared.bus import Bus
from shared.config import Config
from shared.keys import CLI
from shared.subjects import tap_pattern


async def start(config: Config) -> int:
    """Returns the exit status: 0 once the run has ended well, 130 after Ctrl-C, which leaves the run alone.

    Raises:
        BusUnavailable: the stack's bus does not answer.
    """
    view = View(config.run.id, str(run_folder(config)))
    bus = await open_bus(config, CLI)
    try:
        return await until_signal(_follow(config, bus, view), lambda: _left(config, view))
    finally:
        await bus.close()


async def _follow(config: Config, bus: Bus, view: View) -> int:
    watching = asyncio.create_task(_watch(bus, config.run.id, view))
    try:
        with view.show():
            finished = await carried_out(bus, config.run.id)
    finally:
        watching.cancel()
    print_summary(Console(), finished, str(run_folder(config)))
    return 0 if finished.ok else 1


async def _watch(bus: Bus, run: str, view: View) -> None:
    async for tapped in bus.tap(tap_pattern("", run)):
        if tapped.message is not None:
            view.on_message(tapped.message)


def _left(config: Config, view: View) -> None:
    view.console.print(f"run {config.run.id} goes on without this command; the same command looks at it again", highlight=False)
