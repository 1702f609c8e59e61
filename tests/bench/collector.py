"""`make bench-collector`: how fast one collector keeps and assembles what is recorded, with a real NATS and store.

Progress on stderr, one JSON object as the last line on stdout; the exit status is 0 if all bounds hold, 1 if not. Calls per
second are those of a collector process whose work waits in the stream. The best of some rounds counts: what else the machine
does only takes away.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

import uvloop

from tests.bench.collector_report import Figures, bounds, report
from tests.bench.collectors import Collectors
from tests.bench.rollouts import conversation, record_of

CALLS = 50
"""Of an open rollout."""
_SMALL, _LARGE = 80, 20
"""Rollouts whose calls have 2,000 and 40,000 bytes."""
_DELTA, _COMPLETION = 225, 75
"""Tokens of a call of the rollout that is assembled: 200 calls make 60,000."""


class Bench:
    """One run.

    Args:
        collectors: starts them.
        rounds: how often each figure is taken.
    """

    def __init__(self, collectors: Collectors, rounds: int) -> None:
        self._collectors = collectors
        self._rounds = rounds

    async def run(self) -> Figures:
        """Takes all figures."""
        return Figures(
            calls_per_s_2k=await self._best_calls_per_s(_SMALL, 2000),
            calls_per_s_40k=await self._best_calls_per_s(_LARGE, 40_000),
            calls_per_s_2k_archived=await self._best_calls_per_s(_SMALL, 2000, archive=True),
            calls_per_s_40k_archived=await self._best_calls_per_s(_LARGE, 40_000, archive=True),
            calls_per_s_2k_10x=await self._best_calls_per_s(10 * _SMALL, 2000),
            calls_per_s_40k_10x=await self._best_calls_per_s(10 * _LARGE, 40_000),
            calls_per_s_2k_archived_10x=await self._best_calls_per_s(10 * _SMALL, 2000, archive=True),
            calls_per_s_40k_archived_10x=await self._best_calls_per_s(10 * _LARGE, 40_000, archive=True),
            bytes_per_open_rollout=await self._bytes_per_rollout(2000),
            bytes_per_open_rollout_10x=await self._bytes_per_rollout(20_000),
            assemble_ms_200_calls=min([await self._assemble_ms(1) for _ in range(self._rounds)]),
            assemble_ms_200_calls_10x=min([await self._assemble_ms(10) for _ in range(self._rounds)]),
        )

    async def _best_calls_per_s(self, rollouts: int, size: int, *, archive: bool = False) -> float:
        return max([await self._calls_per_s(rollouts, size, archive) for _ in range(self._rounds)])

    async def _calls_per_s(self, rollouts: int, size: int, archive: bool) -> float:
        run = self._collectors.new_run(archive=archive)
        await run.publish(record for n in range(rollouts) for record in record_of(run.id, n, CALLS, size))
        found = await run.drain(rollouts * CALLS)
        await run.forget()
        how = "kept and archived" if archive else "kept"
        each = f"{found.calls_per_s:.0f} a second, {found.cpu_ms:.3f} ms of CPU each"
        _say(f"{rollouts * CALLS} calls of {size} bytes {how}: {each}")
        return round(found.calls_per_s, 1)

    async def _bytes_per_rollout(self, size: int) -> float:
        run = self._collectors.new_run()
        before = await run.memory()
        await run.publish(record for n in range(_LARGE) for record in record_of(run.id, n, CALLS, size))
        await run.drain(_LARGE * CALLS)
        each = (await run.memory() - before) / _LARGE
        await run.forget()
        _say(f"a rollout of {CALLS} calls of {size} bytes: {each:.0f} bytes in the store")
        return round(each)

    async def _assemble_ms(self, times: int) -> float:
        run = self._collectors.new_run()
        ms = await run.assemble_ms(list(conversation(run.id, 0, 200, _DELTA * times, _COMPLETION * times)))
        _say(f"200 calls to {200 * (_DELTA + _COMPLETION) * times} tokens: assembled in {ms:.0f} ms")
        return round(ms, 1)


async def main(rounds: int) -> Figures:
    """Carries one run to its end."""
    with tempfile.TemporaryDirectory(prefix="openforge-bench-") as folder:
        async with AsyncExitStack() as stack:
            return await Bench(await Collectors.start(Path(folder), stack), rounds).run()


def _say(text: str) -> None:
    sys.stderr.write(f"[bench] {text}\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.collector", description="How fast a collector is.")
    parser.add_argument("--rounds", type=int, default=2, help="how often figures are taken; the best counts")
    return parser.parse_args()


if __name__ == "__main__":
    figures = uvloop.run(main(_arguments().rounds))
    sys.stdout.write(report(figures).decode() + "\n")
    sys.exit(0 if all(bound.holds for bound in bounds(figures).values()) else 1)
