"""`make bench-gateway`: what recording costs. Progress on stderr, one JSON object as the last line on stdout.

`floor` is what passing a call on costs with one round trip to the store and one to the bus, and nothing else.

Every gateway stands between the same load (conversations over 16 connections) and the same fake engine (21 kB whole, or 200
chunks of 323 bytes) in one run. They are measured in turn, round by round, so that a noisy machine is noisy for all, and the
best round of each counts. The exit status is 0 if all bounds hold, 1 if not.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

from tests.bench.gateways import Gateway, World
from tests.bench.measure import (
    Plan,
    Sample,
    conversation,
    cost_in,
    drive,
    growth_of,
    memory_after,
    sample,
    sessions_after,
    summed_up,
)
from tests.bench.processes import Failed
from tests.bench.report import Memory, Missing, Report

_NAMES = ("floor", "record", "splice", "anthropic", "rllm")
_MODES = ("record", "splice")
_BASE = 2000
_PLANS = {"": Plan(_BASE, 80, 32, 32), "_20k": Plan(20_000, 32, 16, 16), "_60k": Plan(60_000, 16, 16, 8)}
_RLLM_SHARE = 0.5  # it takes ten times as long
_GROWTH_ROUNDS, _GROWTH_PAIRS = 4, 5


class Bench:
    """One run.

    Args:
        world: what gateways are taken from.
        rounds: how often each is measured.
    """

    def __init__(self, world: World, rounds: int) -> None:
        self.report = Report()
        self._world = world
        self._rounds = rounds
        self._gateways: dict[str, Gateway] = {}

    async def run(self, names: list[str]) -> None:
        """Measures those of `names` that can be had; the others are reported as missing."""
        for name in ("direct", *names):
            await self._start(name)
        modes = [name for name in _MODES if name in self._gateways]
        for name in modes:
            await self._memory(name)
        for suffix, plan in _PLANS.items():
            await self._figures(suffix, plan)
        for name in modes:
            await self._growth(name)

    async def _start(self, name: str) -> None:
        _say(f"{name}: starts")
        try:
            gateway = await self._world.gateway(name)
            before = await self._world.spliced()
            result = await drive(gateway, await gateway.open(16), conversation(_BASE))
            _check(name, result.calls, await self._world.spliced() - before)
        except Failed as e:
            _say(f"{name} is missing: {e}")
            self.report.gateways[name] = Missing(str(e))
        else:
            self._gateways[name] = gateway

    async def _figures(self, suffix: str, plan: Plan) -> None:
        plans = {name: plan for name in self._gateways if not suffix or name not in ("floor", "rllm")}
        if "rllm" in plans:
            plans["rllm"] = plan.scaled(_RLLM_SHARE)
        samples: dict[str, list[Sample]] = {name: [] for name in plans}
        for n in range(self._rounds):
            for name, its_plan in plans.items():
                samples[name].append(await sample(self._gateways[name], its_plan))
                _say(f"{name}{suffix}: round {n + 1}: {samples[name][-1]}")
        for name, taken in samples.items():
            self.report.gateways[name + suffix] = summed_up(taken, samples["direct"])

    async def _growth(self, name: str) -> None:
        """Both are measured in turn, a moment after one another, and with as many calls at once, since calls that come together
        share steps: what else the machine does meets both."""
        gateway, pairs = self._gateways[name], []
        for _ in range(_GROWTH_ROUNDS):
            old = await sessions_after(gateway, _BASE, 500)
            for _ in range(_GROWTH_PAIRS):
                young = await sessions_after(gateway, _BASE, 5)
                pairs.append((await cost_in(gateway, _BASE, young), await cost_in(gateway, _BASE, old)))
        self.report.growth[name] = growth_of(pairs)
        _say(f"{name}: {self.report.growth[name]}")

    async def _memory(self, name: str) -> None:
        taken = [await memory_after(self._gateways[name], _BASE, sessions=100) for _ in range(10)]
        self.report.memory[name] = Memory(mb_after_2000=taken[0], mb_after_20000=taken[-1])
        _say(f"{name}: resident MB every 2,000 calls: {taken}")


async def main(names: list[str], rounds: int) -> Report:
    """Carries one run to its end."""
    with tempfile.TemporaryDirectory(prefix="openforge-bench-") as folder:
        async with AsyncExitStack() as stack:
            world = World(Path(folder), stack)
            await world.start()
            bench = Bench(world, rounds)
            await bench.run(names)
            return bench.report


def _check(name: str, calls: int, spliced: int) -> None:
    """Raises Failed unless a gateway splices what it should: all but the first call of each conversation."""
    wanted = calls - calls // len(conversation(_BASE)) if name in ("splice", "anthropic") else 0
    if spliced != wanted:
        raise Failed(f"{spliced} of {calls} calls were spliced, not {wanted}")


def _say(text: str) -> None:
    sys.stderr.write(f"[bench] {text}\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.gateway", description="What recording costs.")
    parser.add_argument("--only", default=",".join(_NAMES), help="gateways to measure (the bounds need all of them)")
    parser.add_argument("--rounds", type=int, default=6, help="how often each is measured; the best counts")
    return parser.parse_args()


if __name__ == "__main__":
    arguments = _arguments()
    report = asyncio.run(main(arguments.only.split(","), arguments.rounds))
    sys.stdout.write(report.json().decode() + "\n")
    sys.exit(0 if all(bound.holds for bound in report.bounds().values()) else 1)
