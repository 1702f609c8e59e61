"""`openforge tap`: the live events of a stack that runs."""

from __future__ import annotations

import sys
from pathlib import Path

from services.dev.attach import attached
from services.dev.lines import as_json, describe
from services.dev.signals import until_signal
from shared.bus import Bus
from shared.keys import TAP
from shared.subjects import tap_pattern


async def tap(root: Path, run_id: str, pattern: str, rollout_id: str, as_lines: bool) -> int:
    """Prints messages until Ctrl-C.

    Args:
        root: folder of the runs.
        run_id: the run to tap; empty takes the newest that runs.
        pattern: as `shared.subjects.tap_pattern` takes it.
        rollout_id: only messages of this rollout; empty for all.
        as_lines: JSON lines instead of text.

    Raises:
        ConfigError: no such run is alive.
    """
    async with attached(root, run_id, TAP) as (config, bus):
        return await until_signal(_print(bus, tap_pattern(pattern, config.run.id), rollout_id, as_lines), lambda: None)


async def _print(bus: Bus, pattern: str, rollout_id: str, as_lines: bool) -> int:
    async for tapped in bus.tap(pattern):
        if rollout_id and getattr(tapped.message, "rollout_id", None) != rollout_id:
            continue
        sys.stdout.write((as_json(tapped) if as_lines else describe(tapped)) + "\n")
        sys.stdout.flush()
    return 0
