"""The end of a run: waiting for it, and what it came to. Light, for it is what an image without the trainer has, too."""

from __future__ import annotations

import asyncio
import logging
import secrets

from rich.console import Console
from rich.table import Table

from shared.bus import Bus
from shared.errors import BusRefused, BusUnavailable
from shared.events import RunFinished, RunStart

log = logging.getLogger(__name__)
_LOOK_S = 1.0


async def carried_out(bus: Bus, run_id: str) -> RunFinished:
    """Has the trainer carry a run out, from where it stands, and waits for its end, also while the bus is away.

    Raises:
        BusUnavailable: the bus did not take the order, or refuses to say.
    """
    nonce, seen = secrets.token_hex(4), 0  # the run may have ended before, and been told to go on
    await bus.publish(RunStart(run_id=run_id, nonce=nonce))
    while True:
        try:
            async for position, message in bus.replay(RunFinished, run_id, "*", seen):
                seen = position
                if isinstance(message, RunFinished) and message.nonce == nonce:
                    return message
        except BusRefused:
            raise
        except BusUnavailable as e:
            log.info("the end of the run is asked for again: %s", e)
        await asyncio.sleep(_LOOK_S)


def print_summary(console: Console, finished: RunFinished, folder: str) -> None:
    """Prints what a run came to."""
    if not finished.ok:
        console.print(f"The run failed: {finished.error}", highlight=False)
    table = Table(title="Summary", show_header=False)
    for name, value in finished.summary.items():
        table.add_row(name, f"{value:.4g}" if isinstance(value, float) else str(value))
    console.print(table)
    before, after = finished.summary.get("heldout_before"), finished.summary.get("heldout_after")
    if isinstance(before, float) and isinstance(after, float):
        console.print(f"Held-out success: before {before:.3f}, after {after:.3f}", style="bold")
    console.print(f"Everything is in {folder}", highlight=False, soft_wrap=True)
