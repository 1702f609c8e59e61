"""What is killed when: drawn beforehand, and carried out on a stack that works."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from services.dev.supervisor import Supervisor

WIPE = "wipe"
"""In the place of a target: the store forgets everything."""

FIRST, LAST = 0.03, 0.9
"""Shares of the work between which something may be killed."""

_REST_S = 13.0
"""Between two kills of one process: a supervisor gives up on what dies more than five times a minute."""
_POLL_S = 0.02


class Kill(NamedTuple):
    """Kill a target once a share of the work is done."""

    after: float
    target: str


def draw(seed: int, targets: Sequence[str], kills: int, *, wipe: bool) -> list[Kill]:
    """The kills of a run in their order. Every target has its turn before any is killed again; the wipe comes half-way."""
    rng = random.Random(seed)
    order = [target for _ in range(-(-kills // len(targets))) for target in rng.sample(targets, len(targets))][:kills]
    moments = sorted(rng.uniform(FIRST, LAST) for _ in order)
    wipes = [Kill(rng.uniform(0.35, 0.65), WIPE)] if wipe else []
    return sorted([*map(Kill, moments, order), *wipes])


class Killer:
    """Carries kills out.

    Args:
        supervisor: keeps the processes, and starts them again.
        progress: the share of the work that is done.
        wipe: makes the store forget everything.
        say: told of every kill.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        progress: Callable[[], float],
        wipe: Callable[[], Awaitable[None]],
        say: Callable[[str], None],
    ) -> None:
        self._supervisor = supervisor
        self._progress = progress
        self._wipe = wipe
        self._say = say
        self._killed: dict[str, float] = {}
        self.done: list[Kill] = []

    async def run(self, kills: Sequence[Kill]) -> None:
        """Returns when all are done."""
        for kill in kills:
            await self._until(lambda kill=kill: self._progress() >= kill.after and self._rested(kill.target))  # type: ignore[misc]
            if kill.target == WIPE:
                await self._wipe()
            else:
                os.kill(self._supervisor.pids()[kill.target], signal.SIGKILL)
                self._killed[kill.target] = time.monotonic()
            self.done.append(kill)
            self._say(f"{len(self.done)}/{len(kills)} at {self._progress():.0%}: {kill.target}")

    def _rested(self, target: str) -> bool:
        ready = target == WIPE or target in self._supervisor.pids()
        return ready and time.monotonic() - self._killed.get(target, -_REST_S) >= _REST_S

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            if self._supervisor.failed.done():
                raise self._supervisor.failed.result()
            await asyncio.sleep(_POLL_S)
