"""What the collector's benchmark says, and the bounds that it must hold."""

from __future__ import annotations

import msgspec


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a collector process with a real NATS and store. Those with `_10x` are of ten times as much.

    Attributes:
        calls_per_s_2k: recorded calls of 2,000 bytes that one collector takes from the bus and keeps, per second.
        calls_per_s_40k: the same for 40,000 bytes.
        calls_per_s_2k_archived, calls_per_s_40k_archived: that it keeps and archives.
        assemble_ms_200_calls: from the outcome of a rollout of 200 calls and 60,000 tokens to its trajectory, on the bus.
        bytes_per_open_rollout: of the store's memory, for a rollout of 50 calls of 2,000 bytes.
        calls_per_s_2k_10x, calls_per_s_40k_10x, calls_per_s_2k_archived_10x, calls_per_s_40k_archived_10x: with ten times the
            calls.
        assemble_ms_200_calls_10x, bytes_per_open_rollout_10x: with ten times the tokens.
    """

    calls_per_s_2k: float
    calls_per_s_40k: float
    calls_per_s_2k_archived: float
    calls_per_s_40k_archived: float
    assemble_ms_200_calls: float
    bytes_per_open_rollout: float
    calls_per_s_2k_10x: float
    calls_per_s_40k_10x: float
    calls_per_s_2k_archived_10x: float
    calls_per_s_40k_archived_10x: float
    assemble_ms_200_calls_10x: float
    bytes_per_open_rollout_10x: float


class Bound(msgspec.Struct, frozen=True, omit_defaults=True):
    """A figure and what it has to be at least or at most."""

    found: float
    holds: bool
    at_least: float | None = None
    at_most: float | None = None


def bounds(figures: Figures) -> dict[str, Bound]:
    """Everything that must hold, by name. Half as much is asked of the archive, which waits for the disk."""
    f = figures
    return {
        "calls_per_s_2k": _at_least(2000, f.calls_per_s_2k),
        "calls_per_s_40k": _at_least(1000, f.calls_per_s_40k),
        "calls_per_s_2k_archived": _at_least(1000, f.calls_per_s_2k_archived),
        "calls_per_s_40k_archived": _at_least(500, f.calls_per_s_40k_archived),
        "calls_per_s_2k_archived_10x": _at_least(1000, f.calls_per_s_2k_archived_10x),
        "calls_per_s_40k_archived_10x": _at_least(500, f.calls_per_s_40k_archived_10x),
        "assemble_ms_200_calls": _at_most(200, f.assemble_ms_200_calls),
        "calls_per_s_2k_10x / calls_per_s_2k": _at_least(0.7, f.calls_per_s_2k_10x / f.calls_per_s_2k),
        "calls_per_s_40k_10x / calls_per_s_40k": _at_least(0.7, f.calls_per_s_40k_10x / f.calls_per_s_40k),
        "assemble_ms_200_calls_10x / assemble_ms_200_calls": _at_most(
            15, f.assemble_ms_200_calls_10x / f.assemble_ms_200_calls
        ),
        "bytes_per_open_rollout_10x / bytes_per_open_rollout": _at_most(
            12, f.bytes_per_open_rollout_10x / f.bytes_per_open_rollout
        ),
    }


def report(figures: Figures) -> bytes:
    """One line of JSON: the figures, and their `bounds`."""
    return msgspec.json.encode(msgspec.structs.asdict(figures) | {"bounds": bounds(figures)})


def _at_least(limit: float, found: float) -> Bound:
    return Bound(round(found, 3), found >= limit, at_least=limit)


def _at_most(limit: float, found: float) -> Bound:
    return Bound(round(found, 3), found <= limit, at_most=limit)
