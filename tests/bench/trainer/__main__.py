"""``python -m tests.bench.trainer``: progress on stderr, one JSON object as the last line on stdout.

A step of ours goes from the messages of its groups to new weights; veRL's bare calls are those that it makes, on the same
tensors, on the same worker, in the same process. The exit status is 0 if all bounds hold, 1 if not.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.trainer.groups import Shape
from tests.bench.trainer.report import Push, Report, Round
from tests.bench.trainer.transfer import SIZES, SPARE, measure

if TYPE_CHECKING:
    from services.trainer.learner import VerlLearner


_TRANSFERS = 3
"""Of each size; the fastest counts."""


async def main(arguments: argparse.Namespace) -> Report:
    """Carries one run to its end."""
    from shared.config import AlgorithmConfig
    from tests.bench.trainer.steps import Steps, make_learner
    from tests.engine.tied_model import make_tied_model

    shape = Shape(groups=arguments.groups)
    with tempfile.TemporaryDirectory(prefix="openforge-bench-", dir=arguments.folder) as folder:
        if shutil.disk_usage(folder).free < SPARE * max(arguments.bytes, default=0):
            sys.exit(f"{folder}: less than {SPARE} times the largest file is free; pass --folder or smaller --bytes")
        model = arguments.model or Path(folder) / "model"
        if arguments.model is None:
            make_tied_model(model)
        learner = make_learner(model, arguments.threads)
        steps, rounds = Steps(learner, AlgorithmConfig(), shape), []
        steps.warm_up()
        for n in range(arguments.rounds):
            rounds.append(Round(steps.ours(n + 1), *steps.bare()))
            ours, bare = rounds[-1].ours, sum(rounds[-1].bare.values())
            cpu = f"CPU {ours.cpu:.2f} and {rounds[-1].bare_cpu:.2f} s"
            _say(f"round {n + 1}: ours {ours.step:.2f} s, {ours.own:.3f} not veRL's; veRL's calls alone {bare:.2f} s; {cpu}")
        pushes = [] if arguments.no_push else await _pushes(learner, model, Path(folder), arguments.rounds)
        return Report(shape, rounds, pushes, measure(arguments.bytes, _TRANSFERS, Path(folder), _say))


async def _pushes(learner: VerlLearner, model: Path, folder: Path, count: int) -> list[Push]:
    from tests.bench.trainer.pushes import push, serving

    _say("vLLM starts")
    async with serving(model, folder) as engine:
        found = []
        for n in range(count):
            found.append(await push(learner, engine, folder / "weights" / f"{n}.safetensors", n + 1))
            _say(f"push {n + 1}: {found[-1]}")
        return found


def _say(text: str) -> None:
    sys.stderr.write(f"[bench] {text}\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.trainer", description="What a step costs beyond veRL.")
    parser.add_argument("--rounds", type=int, default=10, help="steps, and pushes; the fastest counts")
    parser.add_argument("--groups", type=int, default=24, help="groups of 8 trajectories in a step")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    parser.add_argument("--model", type=Path, help="model folder; default: a tiny random one")
    parser.add_argument("--no-push", action="store_true", help="start no vLLM")
    parser.add_argument("--bytes", type=int, nargs="*", default=SIZES, help="sizes of files that are transferred as in a push")
    parser.add_argument("--folder", type=Path, help="on the disk that files are written to")
    return parser.parse_args()


if __name__ == "__main__":
    report = asyncio.run(main(_arguments()))
    sys.stdout.write(report.json().decode() + "\n")
    sys.exit(0 if all(bound.holds for bound in report.bounds().values()) else 1)
