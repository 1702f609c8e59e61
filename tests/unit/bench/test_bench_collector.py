"""The load and the bounds of the collector's benchmark."""

from __future__ import annotations

import json

import msgspec
import pytest

from services.collector.assemble import assemble
from shared.events import encode
from tests.bench.collector_report import Figures, bounds, report
from tests.bench.rollouts import conversation, finished, record_of, sealed


@pytest.fixture
def figures() -> Figures:
    """Those that are just good enough."""
    return Figures(
        calls_per_s_2k=2000, calls_per_s_40k=1000, assemble_ms_200_calls=200, bytes_per_open_rollout=100_000,
        calls_per_s_2k_10x=1400, calls_per_s_40k_10x=700, assemble_ms_200_calls_10x=3000, bytes_per_open_rollout_10x=1_200_000,
        calls_per_s_2k_archived=1000, calls_per_s_40k_archived=500, calls_per_s_2k_archived_10x=1000,
        calls_per_s_40k_archived_10x=500,
    )  # fmt: skip


def broken(figures: Figures) -> set[str]:
    return {name for name, bound in bounds(figures).items() if not bound.holds}


def test_figures_at_the_bounds_hold(figures: Figures) -> None:
    assert broken(figures) == set()


@pytest.mark.parametrize("name", Figures.__struct_fields__)
def test_every_figure_can_fail(figures: Figures, name: str) -> None:
    smaller_is_worse = name.startswith("calls") or name == "bytes_per_open_rollout"  # what grows from it grew more
    worse = getattr(figures, name) * (0.99 if smaller_is_worse else 1.01)
    assert broken(msgspec.structs.replace(figures, **{name: worse}))


def test_the_report_is_one_object(figures: Figures) -> None:
    told = json.loads(report(figures))
    assert told["calls_per_s_2k"] == 2000
    assert told["bounds"]["calls_per_s_2k"] == {"found": 2000, "holds": True, "at_least": 2000}


@pytest.mark.parametrize("size", [2000, 20_000, 40_000])
def test_records_have_the_size_that_was_asked_for(size: int) -> None:
    assert [len(encode(record)) for record in record_of("run", 7, 20, size)] == pytest.approx([size] * 20, abs=20)


def test_conversations_can_be_assembled() -> None:
    records = list(conversation("run", 7, calls=20, delta=30, completion=10))
    made = assemble(records, sealed("run", 7, 20), max_row_tokens=10_000)
    assert [len(row.ids) // 4 for row in made.rows] == [20 * 40]
    assert made.tokens.trained == 20 * 10
    assert finished("run", 7).rollout_id == records[0].rollout_id
