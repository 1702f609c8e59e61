"""The way into a stack that runs, for commands that come to look at it or to mend it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from services.app import open_bus
from services.dev.stack import find_running
from shared.bus import Bus
from shared.config import Config


@asynccontextmanager
async def attached(root: Path, run_id: str, user: str) -> AsyncIterator[tuple[Config, Bus]]:
    """Configuration and bus of a living stack, while the context lasts.

    Args:
        root: folder of the runs.
        run_id: which one; empty takes the newest that runs.
        user: of the bus, as `shared.keys` has them.

    Raises:
        ConfigError: no such stack is alive.
        BusUnavailable: its bus does not answer.
    """
    config, running = find_running(root, run_id)
    os.environ.update(running.env)
    bus = await open_bus(config, user)
    try:
        yield config, bus
    finally:
        await bus.close()
