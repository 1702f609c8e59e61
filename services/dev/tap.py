"""`openforge tap`: the messages of a deployment, as they come and as they came."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import ExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

from services.app import open_bus
from services.dev.attach import attached
from services.dev.lines import as_json, describe
from services.dev.recordings import line_of
from services.dev.signals import until_signal
from shared.bus import Bus, Tapped
from shared.config import Config
from shared.errors import ConfigError
from shared.events import (
    Message,
    RolloutFailed,
    RolloutFinished,
    RolloutScheduled,
    RolloutTimedOut,
    TrajectoryAssembled,
    TrajectoryDiscarded,
)
from shared.keys import HISTORY, TAP
from shared.subjects import tap_pattern

_TWICE_S = 5.0
"""So long after the history was read, a message may still come that was in it."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be seen.

    Attributes:
        pattern: as `shared.subjects.tap_pattern` takes it.
        rollout_id: only messages of this rollout, with or without its run's id; empty for all.
        follow: all of it, from its first message that is kept to its end.
        since_s: first what was published in so many seconds before; 0 for nothing.
        record: file that gets all messages, in place of stdout.
        as_lines: JSON lines instead of text.
    """

    pattern: str = ""
    rollout_id: str = ""
    follow: bool = False
    since_s: float = 0.0
    record: Path | None = None
    as_lines: bool = False

    @property
    def looks_back(self) -> bool:
        """Whether streams are to be read, for which the user `tap` has no right: it only hears what comes."""
        return self.follow or bool(self.since_s)


async def tap(root: Path, run_id: str, config: Config | None, wish: Wish) -> int:
    """Shows messages until Ctrl-C, or until the rollout that is followed has ended.

    Args:
        root: folder of the runs.
        run_id: the run to tap; empty takes the newest that runs, or of a deployment that of its configuration, or all.
        config: of a deployment elsewhere; None for a stack of this machine.
        wish: what to show.

    Raises:
        ConfigError: no such run is alive, or the file cannot be written.
    """
    async with _bus(root, run_id, config, HISTORY if wish.looks_back else TAP) as (run, bus):
        with ExitStack() as files:
            file = files.enter_context(_opened(wish.record)) if wish.record else None
            return await until_signal(_show(bus, run, wish, file), lambda: None)


@asynccontextmanager
async def _bus(root: Path, run_id: str, config: Config | None, user: str) -> AsyncIterator[tuple[str, Bus]]:
    if config is None:
        async with attached(root, run_id, user) as (found, bus):
            yield found.run.id, bus
        return
    if not config.bus.url:
        raise ConfigError("a deployment is tapped at its bus.url: set it in the file or with --set")
    bus = await open_bus(config, user)
    try:
        yield run_id or config.run.id or "*", bus
    finally:
        await bus.close()


def _opened(file: Path) -> BinaryIO:
    try:
        return file.open("ab", buffering=0)
    except OSError as e:
        raise ConfigError(f"--record {file}: {e.strerror}") from None


async def _show(bus: Bus, run: str, wish: Wish, file: BinaryIO | None) -> int:
    names = {wish.rollout_id, f"{run}-{wish.rollout_id}"} if wish.rollout_id else set()
    key = await _full_id(bus, run, wish.rollout_id) if names and wish.looks_back else "*"
    since = 0.0 if wish.follow else time.time() - wish.since_s if wish.since_s else None
    left = {"outcome", "trajectory"} if wish.follow else set()
    async with aclosing(feed(bus, tap_pattern(wish.pattern, run, key), since)) as messages:
        async for at, tapped in messages:
            if names and getattr(tapped.message, "rollout_id", None) not in names:
                continue
            _write(tapped, at, wish, file)
            if wish.follow and not (left := left - {_part(tapped.message)}):
                break
    return 0


async def _full_id(bus: Bus, run: str, given: str) -> str:
    """Id of a rollout that was named with or without its run's."""
    longer = f"{run}-{given}"
    if run == "*" or await bus.keys(RolloutScheduled, run, given) or not await bus.keys(RolloutScheduled, run, longer):
        return given
    return longer


def _part(message: Message | None) -> str:
    """What of a rollout's end a message is."""
    match message:
        case RolloutFinished() | RolloutTimedOut():
            return "outcome"
        case RolloutFailed() if message.final:
            return "outcome"
        case TrajectoryAssembled() | TrajectoryDiscarded():
            return "trajectory"
    return ""


def _write(tapped: Tapped, at: float, wish: Wish, file: BinaryIO | None) -> None:
    if file is not None:
        file.write(line_of(tapped, at) + b"\n")
        return
    sys.stdout.write((as_json(tapped) if wish.as_lines else describe(tapped)) + "\n")
    sys.stdout.flush()


async def feed(bus: Bus, pattern: str, since: float | None) -> AsyncGenerator[tuple[float, Tapped]]:
    """Messages as they come, with their times; first those that were kept since a unix time. Between the two none is left out,
    and none shown twice."""
    coming: asyncio.Queue[Tapped] = asyncio.Queue()
    listening = asyncio.create_task(_listen(bus, pattern, coming))
    await asyncio.sleep(0)  # it listens from here on
    seen: set[bytes] = set()
    try:
        if since is not None:
            async for at, tapped in bus.history(pattern, since):
                seen.add(_mark(tapped))
                yield at, tapped
        until = time.monotonic() + _TWICE_S
        while True:
            tapped = await coming.get()
            if not seen or _mark(tapped) not in seen:
                yield time.time(), tapped
            if seen and time.monotonic() > until:
                seen.clear()
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


async def _listen(bus: Bus, pattern: str, coming: asyncio.Queue[Tapped]) -> None:
    async for tapped in bus.tap(pattern):
        coming.put_nowait(tapped)


def _mark(tapped: Tapped) -> bytes:
    return blake2b(tapped.data, digest_size=12).digest()
