"""``python -m tests.conformance [--harness codex,pi] [--scene plain,tools] [--mode record] [--jobs 2] [--docs]``.

Progress goes to standard error; the last line of standard output is JSON, `{harness: {scene: "pass" | reason}}`. It ends with 0
only if every cell passes or is excused by something that the program does not have.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from services.dev.harness import install_harnesses
from shared.errors import ForgeError
from tests.conformance.checks import complaints
from tests.conformance.programs import Program, load_programs
from tests.conformance.scenes import SCENES
from tests.conformance.stage import Stage, stage
from tests.conformance.table import EXCUSED, PASS, Table, as_json, good, write_page


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description="Real programs through every scene.")
    parser.add_argument("--harness", default="", help="names, separated by commas; all by default")
    parser.add_argument("--scene", default="", help="names, separated by commas; all by default")
    parser.add_argument("--mode", default="splice", help="of the proxy: splice or record")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="rollouts at once")
    parser.add_argument(
        "--folder",
        type=Path,
        help="for what runs leave; by default a temporary one, which goes if all is well",
    )
    parser.add_argument("--docs", action="store_true", help="write docs/harnesses.md")
    args = parser.parse_args()
    programs = load_programs()
    names, scenes = _chosen(args.harness, programs, parser), _chosen(args.scene, SCENES, parser)
    _say("programs: " + ", ".join(names))
    install_harnesses(names, "")
    folder = args.folder or Path(tempfile.mkdtemp(prefix="conformance-"))
    folder.mkdir(parents=True, exist_ok=True)
    _say(f"everything is in {folder}")
    table = _empty(names, scenes, programs)
    asyncio.run(_run(folder, args.jobs, args.mode, programs, table))
    if args.docs:
        write_page(table, programs, args.mode)
    sys.stdout.write(as_json(table) + "\n")
    fine = all(good(cell) for cells in table.values() for cell in cells.values())
    if fine and not args.folder:
        shutil.rmtree(folder, ignore_errors=True)  # there is nothing to look for in it
    sys.exit(0 if fine else 1)


def _chosen(text: str, known: Mapping[str, object], parser: argparse.ArgumentParser) -> list[str]:
    names = text.split(",") if text else list(known)
    if unknown := [name for name in names if name not in known]:
        parser.error(f"unknown: {', '.join(unknown)}; there are: {', '.join(known)}")
    return names


def _empty(names: list[str], scenes: list[str], programs: dict[str, Program]) -> Table:
    """The table before anything was run: only excuses stand in it."""
    return {
        name: {scene: EXCUSED + programs[name].lacks[scene] if scene in programs[name].lacks else "" for scene in scenes}
        for name in names
    }


async def _run(folder: Path, jobs: int, mode: str, programs: dict[str, Program], table: Table) -> None:
    """Fills the table."""
    todo = [(name, scene) for name, cells in table.items() for scene, cell in cells.items() if not cell]
    async with stage(folder, jobs, mode) as made:
        places = asyncio.Semaphore(jobs)

        async def one(name: str, scene: str) -> None:
            async with places:
                table[name][scene] = await _cell(made, name, scene, programs[name], mode)

        async with asyncio.TaskGroup() as group:
            for name, scene in todo:
                group.create_task(one(name, scene))


async def _cell(made: Stage, name: str, scene: str, program: Program, mode: str) -> str:
    started = time.monotonic()
    evidence = await made.play(name, scene, program.metadata)
    wrong = "; ".join(complaints(scene, program, evidence, mode))
    _say(f"{name} {scene}: {wrong or PASS} ({len(evidence.records)} calls, {time.monotonic() - started:.0f} s)")
    return wrong or PASS


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    try:
        main()
    except ForgeError as e:
        sys.exit(f"conformance: {e}")
