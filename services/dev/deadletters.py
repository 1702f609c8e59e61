"""`openforge deadletters`: messages that nobody could handle, on a stack that runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec

from services.dev.attach import attached
from services.dev.lines import plain
from shared.bus import Bus, DeadLetter
from shared.errors import ConfigError, Rejected
from shared.keys import OPERATOR

_SHORT = 160


async def list_letters(root: Path, run_id: str, *, as_json: bool) -> int:
    """Prints the dead letters of a run, oldest first, as text or as JSON lines.

    Args:
        root: folder of the runs.
        run_id: the run; empty takes the newest that runs.
        as_json: one JSON object a line.

    Raises:
        ForgeError: no such stack is alive, or its bus does not answer.
    """
    async with attached(root, run_id, OPERATOR) as (config, bus):
        letters = await bus.dead_letters()
    if not letters and not as_json:
        _say(f"no dead letters in run {config.run.id}")
    for letter in letters:
        _say(msgspec.json.encode(_facts(letter)).decode() if as_json else plain(line(letter)))
    return 0


async def show(root: Path, run_id: str, number: int) -> int:
    """Prints one dead letter with its body.

    Raises:
        ForgeError: as `list_letters`, or there is no such letter.
    """
    async with attached(root, run_id, OPERATOR) as (_, bus):
        [letter] = await _chosen(bus, [number])
    for name, value in (_facts(letter) | {"at": _clock(letter)}).items():
        _say(plain(f"{name:<9} {value}"))
    _say(plain(body(letter.data)))
    return 0


async def replay(root: Path, run_id: str, numbers: Sequence[int], *, every: bool) -> int:
    """Publishes dead letters again, and takes them out. Returns 1 if one could not be.

    Raises:
        ForgeError: as `show`, or none were named.
    """
    if every == bool(numbers):
        raise ConfigError("name the dead letters to replay, or pass --all")
    async with attached(root, run_id, OPERATOR) as (_, bus):
        letters = await bus.dead_letters() if every else await _chosen(bus, numbers)
        done = [await _done(bus.revive, letter, "published again") for letter in letters]
    return 0 if all(done) else 1


async def drop(root: Path, run_id: str, numbers: Sequence[int]) -> int:
    """Deletes dead letters.

    Raises:
        ForgeError: as `show`.
    """
    async with attached(root, run_id, OPERATOR) as (_, bus):
        for letter in await _chosen(bus, numbers):
            await _done(bus.drop, letter, "deleted")
    return 0


def line(letter: DeadLetter) -> str:
    """A dead letter in one line: number, when, who gave it up, where it was published, bytes, why."""
    about = f"{_clock(letter)}  {letter.consumer}  {letter.subject}  {letter.size} B  {letter.reason[:_SHORT]}"
    return f"{letter.number:>6}  {about}"


def body(data: bytes) -> str:
    """A body for a person: JSON with line breaks where it is JSON, else text in which odd bytes are escaped."""
    try:
        return msgspec.json.format(data, indent=2).decode()
    except (msgspec.DecodeError, RecursionError, ValueError):
        return data.decode(errors="backslashreplace")


async def _chosen(bus: Bus, numbers: Sequence[int]) -> list[DeadLetter]:
    letters = {letter.number: letter for letter in await bus.dead_letters()}
    if missing := [n for n in numbers if n not in letters]:
        raise ConfigError(f"there is no dead letter {missing[0]}; `openforge deadletters` lists those that there are")
    return [letters[n] for n in dict.fromkeys(numbers)]


async def _done(work: Callable[[DeadLetter], Awaitable[None]], letter: DeadLetter, what: str) -> bool:
    try:
        await work(letter)
    except Rejected as e:
        _say(f"{letter.number}: not {what}: {e}")
        return False
    _say(plain(f"{letter.number}: {what}: {letter.subject}"))
    return True


def _facts(letter: DeadLetter) -> dict[str, str | float]:
    return {
        "id": letter.number, "at": letter.at, "subject": letter.subject, "consumer": letter.consumer,
        "reason": letter.reason, "size": letter.size,
    }  # fmt: skip


def _clock(letter: DeadLetter) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(letter.at))


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
