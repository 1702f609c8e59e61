"""``python -m tests.chaos [--rollouts 200] [--kills 30] [--seed 0] [--mode record] [--no-wipe] [--folder DIR]``.

Rollouts in groups run against a scripted engine while collectors, proxy, orchestrator, nats-server and store are killed with
-9 at random moments, and the store is wiped once. Then the engine's own account of its calls, and the harnesses' account of the
replies that reached them whole, are compared with the rows of the groups. Progress goes to standard error, the verdict is one
JSON object on the last line of standard output; the exit status is 0 only if nothing was lost or doubled.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
from pathlib import Path

import msgspec
from rich.console import Console

from services.app import open_bus, open_store
from services.dev.stack import Stack
from services.dev.view import View
from shared.errors import ForgeError
from shared.keys import OPERATOR
from shared.store.blobs import Blobs
from tests.chaos.evidence import Evidence, closed_groups, collect
from tests.chaos.kills import WIPE, Killer, draw
from tests.chaos.scene import TARGETS, calls_of, engine_log, make_scene, starts
from tests.chaos.verdict import Verdict, judge, not_found

_END_S = 240.0
"""How long the end may take, after the last kill."""
_POLL_S = 0.5


class Run:
    """One run.

    Args:
        folder: empty, for everything that the run leaves behind.
        arguments: of the command line.
    """

    def __init__(self, folder: Path, arguments: argparse.Namespace) -> None:
        self._folder = folder
        self._arguments = arguments
        self._plan = make_scene(folder, arguments.mode)
        self._view = View(self._plan.config.run.id, str(folder), Console(stderr=True, force_terminal=False))
        self._commands = starts(self._plan, folder, arguments.rollouts)
        self._calls = Lines(engine_log(folder))

    async def run(self) -> Verdict:
        """Runs everything to its end.

        Raises:
            ForgeError: the stack broke down.
        """
        async with Stack(self._plan, self._view) as stack:
            await stack.engine_ready()
            killer = Killer(stack.supervisor, self._share, self._wipe, self._view.note)
            began = time.monotonic()
            for command in self._commands:
                await stack.bus.publish(command)
            await killer.run(draw(self._arguments.seed, TARGETS, self._arguments.kills, wipe=self._arguments.wipe))
            await self._until_closed(stack)
            wall_s = time.monotonic() - began
            evidence = await self._evidence()
        for trouble in (*(f"not found: {call}" for call in not_found(evidence)), *(f"given up: {m}" for m in evidence.dead)):
            self._view.note(trouble)
        wipes = sum(kill.target == WIPE for kill in killer.done)
        return judge(evidence, kills=len(killer.done) - wipes, wipes=wipes, wall_s=wall_s)

    def _share(self) -> float:
        return self._calls.count() / calls_of(self._arguments.rollouts)

    async def _wipe(self) -> None:
        store = open_store(self._plan.config, OPERATOR)
        await store.flushall()
        await store.aclose()

    async def _until_closed(self, stack: Stack) -> None:
        """Returns when all groups are closed, or the time for it is up: the verdict says which are not."""
        wanted = {command.group_id for command in self._commands}
        until = time.monotonic() + _END_S
        while open_ := wanted - await closed_groups(stack.bus, self._plan.config.run.id):
            if stack.supervisor.failed.done():
                raise stack.supervisor.failed.result()
            if time.monotonic() > until:
                self._view.note(f"still open: {', '.join(sorted(open_))}")
                return
            await asyncio.sleep(_POLL_S)

    async def _evidence(self) -> Evidence:
        config = self._plan.config
        store = open_store(config, OPERATOR)
        blobs = Blobs(store, config.run.id)
        bus = await open_bus(config, OPERATOR)
        evidence = await collect(self._commands, engine_log(self._folder), self._plan.folder, bus, blobs)
        await asyncio.gather(store.aclose(), bus.close())
        return evidence


class Lines:
    """Counts the lines of a file that grows."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._read = 0
        self._lines = 0

    def count(self) -> int:
        """Lines by now."""
        if self._file.exists():
            with self._file.open("rb") as file:
                file.seek(self._read)
                new = file.read()
            self._read += len(new)
            self._lines += new.count(b"\n")
        return self._lines


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description="Everything is killed; is anything lost?")
    parser.add_argument("--rollouts", type=int, default=200)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0, help="of what is killed when")
    parser.add_argument("--mode", choices=("record", "splice"), default="record", help="of the proxy")
    parser.add_argument("--no-wipe", dest="wipe", action="store_false", help="leave the store its data")
    parser.add_argument(
        "--folder",
        type=Path,
        help="empty, for what is left; by default a temporary one, which goes if all is well",
    )
    return parser.parse_args()


def main() -> None:
    """The command line."""
    arguments = _arguments()
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="openforge-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    sys.stderr.write(f"everything is in {folder}\n")
    verdict = asyncio.run(Run(folder.resolve(), arguments).run())
    sys.stdout.write(msgspec.json.encode(verdict).decode() + "\n")
    holds = verdict.holds(arguments.kills, int(arguments.wipe))
    if holds and not arguments.folder:
        shutil.rmtree(folder, ignore_errors=True)  # there is nothing to look for in it
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    try:
        main()
    except ForgeError as e:
        sys.exit(f"chaos: {e}")
