"""What the contract of sandbox backends is tested with: a kit per backend.

A kit makes backends of one place (a folder, an engine, a cluster), writes boxes for them, and hurts what the tests hurt.
Agents are shell scripts of a few plain commands only (`echo`, `sleep`, `cat`, `exit`, `trap '' TERM`, `> file`, joined by `;`),
so that the twin can play them.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Protocol

from services.orchestrator.backends.port import Backend, Box, Seen, Stage

WITHIN_S = 150.0


class Kit(Protocol):
    """One place with sandboxes."""

    workdir: str
    """Working folder of agents, as they see it."""
    images: bool
    """Sandboxes are made of images."""

    async def backend(self) -> Backend:
        """One more backend of that place, opened: it knows nothing of what the others did."""
        ...

    def box(self, script: str, name: str = "r1-a1", *, timeout_s: float = 120.0, grace_s: float = 0.3) -> Box:
        """A sandbox whose agent runs a shell script in its working folder, and whose verifier then rewards that `out.txt`
        holds `hello`. `grace_s` is the runner's own, between asking the agent to end and killing it."""
        ...

    def broken(self, name: str = "r1-a1") -> Box:
        """A sandbox that cannot work: its end is an error, or asking for it raises one."""
        ...

    async def vanish(self, name: str) -> None:
        """Somebody else kills a sandbox and takes away what can be taken away."""
        ...

    async def interrupt(self) -> None:
        """Breaks all connections to the place, for a moment; its sandboxes go on. Nothing where there are none."""
        ...

    async def close(self) -> None:
        """Clears everything away."""
        ...


async def seen_as(backend: Backend, stage: Stage, name: str = "r1-a1", within_s: float = WITHIN_S) -> Seen:
    """The first sight of a sandbox in a stage."""
    async with asyncio.timeout(within_s):
        async for seen in backend.watch():
            if (seen.name, seen.stage) == (name, stage):
                return seen
    raise AssertionError("watching does not end")


async def printed(backend: Backend, text: str, name: str = "r1-a1") -> None:
    """Waits until an agent has printed something."""
    async with asyncio.timeout(WITHIN_S):
        while text.encode() not in await backend.logs(name):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.05)


def text_file(folder: Path, name: str, text: str) -> Path:
    """A folder with one file in it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return folder
