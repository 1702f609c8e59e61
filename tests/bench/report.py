"""What the benchmark says, and the bounds that it must hold."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What a gateway costs.

    Attributes:
        cpu_ms_per_call: user and system time of its process for a call that is not streamed, 16 connections at once.
        cpu_ms_per_1k_chunks: the same for streamed calls, all of it (not only what chunks add), per 1,000 chunks of the engine,
            which sends as fast as it can.
        p50_added_ms: median time of a call that is not streamed at one connection, beyond that without a gateway.
        calls_per_s_16: of calls that are not streamed, 16 connections at once.
        servers_cpu_ms_per_call: what the servers that it needs (NATS, valkey) use for a call that is not streamed.
    """

    cpu_ms_per_call: float
    cpu_ms_per_1k_chunks: float
    p50_added_ms: float
    calls_per_s_16: float
    servers_cpu_ms_per_call: float


class Missing(msgspec.Struct, frozen=True):
    """A gateway that could not be measured, and why."""

    missing: str


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """What a call costs in sessions that made 5 and 500 calls before: medians of pairs that were measured one after the other.

    Attributes:
        cpu_ms_after_5, cpu_ms_after_500: user and system time.
        ratio: of the two in a pair.
    """

    cpu_ms_after_5: float
    cpu_ms_after_500: float
    ratio: float


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Resident MB of a proxy after so many calls."""

    mb_after_2000: float
    mb_after_20000: float


class Bound(msgspec.Struct, frozen=True):
    """A figure (None: it is missing) and what it may be at most."""

    found: float | None
    limit: float
    holds: bool


@dataclass
class Report:
    """The figures of one run, by gateway: `record`, and `record_20k` for longer prompts."""

    gateways: dict[str, Figures | Missing] = field(default_factory=dict)
    growth: dict[str, Growth] = field(default_factory=dict)
    memory: dict[str, Memory] = field(default_factory=dict)

    def json(self) -> bytes:
        """One line: figures by gateway, `growth`, `memory` and `bounds`."""
        rest = {"growth": self.growth, "memory": self.memory, "bounds": self.bounds()}
        return msgspec.json.encode(self.gateways | rest)

    def bounds(self) -> dict[str, Bound]:
        """Everything that must hold, by name."""
        found: dict[str, Bound] = {}
        for name, per_call, per_chunks in (("record", 0.3, 6.0), ("splice", 1.5, 15.0), ("anthropic", 1.5, 15.0)):
            found[f"{name}.cpu_ms_per_call"] = _at_most(per_call, self._figure(name, "cpu_ms_per_call"))
            found[f"{name}.cpu_ms_per_1k_chunks"] = _at_most(per_chunks, self._figure(name, "cpu_ms_per_1k_chunks"))
        for figure in ("cpu_ms_per_call", "cpu_ms_per_1k_chunks"):
            found[f"record/rllm {figure}"] = _at_most(0.1, _ratio(self._figure("record", figure), self._figure("rllm", figure)))
        for name in ("record", "splice"):
            grown, memory = self.growth.get(name), self.memory.get(name)
            found[f"growth.{name} after 500 / after 5"] = _at_most(1.25, grown.ratio if grown else None)
            more = memory.mb_after_20000 - memory.mb_after_2000 if memory else None
            found[f"memory.{name} mb more"] = _at_most(10.0, more)
        return found

    def _figure(self, name: str, figure: str) -> float | None:
        figures = self.gateways.get(name)
        return float(getattr(figures, figure)) if isinstance(figures, Figures) else None


def _at_most(limit: float, found: float | None) -> Bound:
    return Bound(None if found is None else round(found, 3), limit, found is not None and found <= limit)


def _ratio(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below else None
