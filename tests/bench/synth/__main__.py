"""``python -m tests.bench.synth``: progress on stderr, one JSON object as the last line on stdout.

Tasks of families, with defects planted among them; synth is killed on the way, and goes on. The exit status is 0 if every
defect was caught by a gate that is to catch it, every sound task was accepted, and no trial that had ended was made again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
from pathlib import Path

from services.dev.signals import until_signal
from tests.bench.synth.defects import DEFECTS
from tests.bench.synth.planting import plan_of
from tests.bench.synth.run import Bench
from tests.bench.synth.verdict import verdict


async def main(arguments: argparse.Namespace) -> int:
    """Carries one run to its end, and prints what it came to; returns the exit status."""
    names = [name for name in (arguments.defects or [defect.name for defect in DEFECTS]) for _ in range(arguments.each)]
    plan = plan_of(arguments.count, names)
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="openforge-bench-synth-"))
    folder.mkdir(parents=True, exist_ok=True)
    _say(f"{plan.sound} sound proposals and {len(plan.planted)} spoiled ones; everything is in {folder}")
    tasks, facts = await Bench(plan, folder, arguments.sets, _say).run(arguments.kills)
    found = verdict(plan, tasks, facts)
    sys.stdout.write(json.dumps(found) + "\n")
    if found["good"] and not arguments.folder:
        shutil.rmtree(folder, ignore_errors=True)  # there is nothing to look for in it
    return 0 if found["good"] else 1


def _say_interrupted() -> None:
    _say("ended by a signal; with the same --folder it goes on")


def _say(text: str) -> None:
    sys.stderr.write(f"[bench] {text}\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.synth", description="Is every planted defect caught?")
    parser.add_argument("--count", type=int, default=60, help="proposals")
    parser.add_argument("--each", type=int, default=2, help="times that each defect is planted")
    parser.add_argument("--defects", nargs="*", help=f"of: {', '.join(defect.name for defect in DEFECTS)}; default: all")
    parser.add_argument("--kills", type=int, default=2, help="kill -9 of synth, and of the whole stack, in turn")
    parser.add_argument("--folder", type=Path, help="for what it leaves; one that was begun with is gone on with")
    parser.add_argument("--set", dest="sets", action="append", default=[], help="a further setting, as synth.parallel=2")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(asyncio.run(until_signal(main(_arguments()), _say_interrupted)))
