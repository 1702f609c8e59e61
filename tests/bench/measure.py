"""One measurement of one gateway: a load in a process of its own, and what the gateway used meanwhile."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
from dataclasses import dataclass

import msgspec

from tests.bench.gateways import Gateway
from tests.bench.load import Calls, Load, Result
from tests.bench.processes import Failed, cpu_s, rss_mb
from tests.bench.replies import REPLY_TOKENS
from tests.bench.report import Figures, Growth

_TURNS = 4


@dataclass(frozen=True, slots=True)
class Plan:
    """How much one round does.

    Attributes:
        base: tokens of a conversation's first prompt.
        whole, streamed, single: sessions of calls not streamed, of streamed ones, and of those at one connection.
    """

    base: int
    whole: int
    streamed: int
    single: int

    def scaled(self, by: float) -> Plan:
        """The same with another number of sessions."""
        return Plan(self.base, round(self.whole * by), round(self.streamed * by), round(self.single * by))


@dataclass(frozen=True, slots=True)
class Sample:
    """One round of one gateway."""

    cpu_ms: float
    servers_ms: float
    streamed_ms: float
    p50_ms: float
    calls_per_s: float


def conversation(base: int) -> Calls:
    """The calls of one session; each prompt is 220 tokens longer than the last."""
    return [(base, turn) for turn in range(_TURNS)]


async def drive(gateway: Gateway, paths: list[str], calls: Calls, *, stream: bool = False, connections: int = 16) -> Result:
    """Makes `calls` in each session.

    Raises:
        Failed: a call was not answered whole.
    """
    load = Load(port=gateway.port, paths=paths, calls=calls, api=gateway.api, stream=stream, connections=connections)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.load", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    output, errors = await process.communicate(msgspec.json.encode(load))
    if process.returncode != 0:
        raise Failed(f"the load generator failed: {errors.decode(errors='replace')[-600:]}")
    result = msgspec.json.decode(output, type=Result)
    if result.failed:
        raise Failed(f"{result.failed} of {result.failed + result.calls} calls failed: {result.reason}")
    return result


async def sample(gateway: Gateway, plan: Plan) -> Sample:
    """One round."""
    calls = conversation(plan.base)
    paths = [await gateway.open(sessions) for sessions in (plan.whole, plan.streamed, plan.single)]
    before, servers_before = _cpu_ms(gateway), _servers_cpu_ms(gateway)
    whole = await drive(gateway, paths[0], calls)
    between, servers_after = _cpu_ms(gateway), _servers_cpu_ms(gateway)
    streamed = await drive(gateway, paths[1], calls, stream=True)
    after = _cpu_ms(gateway)
    single = await drive(gateway, paths[2], calls, connections=1)
    return Sample(
        cpu_ms=(between - before) / whole.calls,
        servers_ms=(servers_after - servers_before) / whole.calls,
        streamed_ms=(after - between) / (streamed.calls * REPLY_TOKENS) * 1000,
        p50_ms=single.p50_ms,
        calls_per_s=whole.calls / whole.seconds,
    )


def summed_up(samples: list[Sample], direct: list[Sample]) -> Figures:
    """The best of some rounds, figure by figure (what else the machine does only adds), against those without a gateway."""
    return Figures(
        cpu_ms_per_call=round(min(s.cpu_ms for s in samples), 3),
        cpu_ms_per_1k_chunks=round(min(s.streamed_ms for s in samples), 2),
        p50_added_ms=round(min(s.p50_ms for s in samples) - min(s.p50_ms for s in direct), 3),
        calls_per_s_16=round(max(s.calls_per_s for s in samples), 1),
        servers_cpu_ms_per_call=round(min(s.servers_ms for s in samples), 3),
    )


async def sessions_after(gateway: Gateway, base: int, earlier: int, count: int = 8) -> list[str]:
    """Paths of some sessions that made `earlier` calls, all of them shorter than `base` and of different lengths."""
    paths = await gateway.open(count)
    await drive(gateway, paths, [(base // 2 + n, 0) for n in range(earlier)])
    return paths


async def cost_in(gateway: Gateway, base: int, paths: list[str], calls: int = 25) -> float:
    """CPU ms of a call in some sessions, in all of which so many are made."""
    before = _cpu_ms(gateway)
    measured = await drive(gateway, paths, [(base, 0)] * calls)
    return (_cpu_ms(gateway) - before) / measured.calls


def growth_of(pairs: list[tuple[float, float]]) -> Growth:
    """The medians of some pairs of costs, few calls before and many."""
    few, many = zip(*pairs, strict=True)
    ratio = statistics.median(b / a for a, b in pairs)
    costs = [round(statistics.median(found), 3) for found in (few, many)]
    return Growth(cpu_ms_after_5=costs[0], cpu_ms_after_500=costs[1], ratio=round(ratio, 3))


async def memory_after(gateway: Gateway, base: int, sessions: int) -> float:
    """Resident MB after five conversations in each of some sessions, which are sealed then.

    Raises:
        Failed: a call is not on record.
    """
    assert gateway.pid is not None, "there is no gateway"
    await drive(gateway, await gateway.open(sessions), conversation(base) * 5)
    await gateway.seal(calls=5 * _TURNS)
    return round(rss_mb(gateway.pid), 1)


def _cpu_ms(gateway: Gateway) -> float:
    return cpu_s(gateway.pid) * 1e3 if gateway.pid else 0.0


def _servers_cpu_ms(gateway: Gateway) -> float:
    return sum(map(cpu_s, gateway.servers)) * 1e3
