"""The bounds of the benchmark."""

from __future__ import annotations

import json

import pytest

from tests.bench.report import Figures, Growth, Memory, Missing, Report


def figures(cpu_ms_per_call: float, cpu_ms_per_1k_chunks: float) -> Figures:
    return Figures(
        cpu_ms_per_call=cpu_ms_per_call, cpu_ms_per_1k_chunks=cpu_ms_per_1k_chunks, p50_added_ms=1.0, calls_per_s_16=1000.0,
        servers_cpu_ms_per_call=0.1,
    )  # fmt: skip


@pytest.fixture
def report() -> Report:
    """One in which every figure is just good enough."""
    return Report(
        {"record": figures(0.3, 6), "splice": figures(1.5, 15), "anthropic": figures(1.5, 15), "rllm": figures(3, 60)},
        {name: Growth(cpu_ms_after_5=1.0, cpu_ms_after_500=1.25, ratio=1.25) for name in ("record", "splice")},
        {name: Memory(mb_after_2000=100.0, mb_after_20000=110.0) for name in ("record", "splice")},
    )


def broken(report: Report) -> set[str]:
    return {name for name, bound in report.bounds().items() if not bound.holds}


def test_figures_at_the_bounds_hold(report: Report) -> None:
    assert broken(report) == set()


def test_what_is_over_a_bound_is_named(report: Report) -> None:
    report.gateways |= {"record": figures(0.31, 6), "anthropic": figures(1.5, 15.1)}
    report.memory["splice"] = Memory(mb_after_2000=100.0, mb_after_20000=110.2)
    assert broken(report) == {
        "record.cpu_ms_per_call", "record/rllm cpu_ms_per_call", "anthropic.cpu_ms_per_1k_chunks", "memory.splice mb more",
    }  # fmt: skip


def test_what_is_missing_does_not_hold(report: Report) -> None:
    report.gateways["splice"] = Missing("no such mode")
    del report.growth["splice"]
    assert broken(report) == {"splice.cpu_ms_per_call", "splice.cpu_ms_per_1k_chunks", "growth.splice after 500 / after 5"}


def test_the_report_is_one_object_with_all_figures(report: Report) -> None:
    told = json.loads(report.json())
    assert told["record"]["cpu_ms_per_call"] == 0.3
    assert set(told) == {"record", "splice", "anthropic", "rllm", "growth", "memory", "bounds"}
