"""What services count, and how Prometheus gets it."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from shared.events import (
    CallRecorded,
    GroupCompleted,
    GroupDiscarded,
    Message,
    RolloutFailed,
    RolloutFinished,
    RolloutStarted,
    RunStepped,
    TokenCounts,
    TrajectoryAssembled,
    TrajectoryDiscarded,
    WeightsFailed,
    WeightsLoaded,
    WeightsPublished,
)
from shared.events.rollouts import Durations
from shared.watch.table import METRICS
from shared.watch.watch import Watch
from tests.contract.bus_kit import call, failed

REPO = Path(__file__).parents[3]
_IDS: dict[str, Any] = {"run_id": "r", "rollout_id": "r1", "group_id": "g"}
_TOKENS = TokenCounts(sampled=6, trained=3, masked=2, dropped=1)

MESSAGES: tuple[Message, ...] = (
    call("r", 1), failed("r"),
    RolloutStarted(**_IDS, sandbox="local"),
    RolloutFinished(**_IDS, group_size=1, task="t", harness="h", reward=1.0, durations=Durations(agent_s=2.5)),
    TrajectoryAssembled(**_IDS, reward=1.0, calls=1, rows=1, tokens=_TOKENS),
    TrajectoryDiscarded(**_IDS, reason="FidelityError"),
    GroupCompleted(run_id="r", group_id="g", tokens=_TOKENS),
    GroupDiscarded(run_id="r", group_id="h", reason="no_variance"),
    RunStepped(run_id="r", step=1, version=1, metrics={"timing_s/step": 3.0}),
    WeightsPublished(run_id="r", version=4), WeightsLoaded(run_id="r", version=4, push_s=1.5),
    WeightsFailed(run_id="r", version=4, engine="http://e"),
)  # fmt: skip


async def scraped(watch: Watch) -> dict[tuple[str, ...], float]:
    """The samples of a page by name and values of the labels, in the order of their names, but for those that all have."""
    page = (await watch.answer("/metrics")).body.decode()
    return {
        (s.name, *(v for k, v in s.labels.items() if k not in ("run", "service"))): s.value
        for family in text_string_to_metric_families(page) for s in family.samples
    }  # fmt: skip


async def test_what_is_said_on_the_bus_is_counted() -> None:
    watch = Watch("collector", "r")
    for message in MESSAGES:
        watch.published(message)
    page = await scraped(watch)
    assert page[("openforge_calls_total", "sent", "openai.chat")] == 1
    assert page[("openforge_tokens_total", "sampled")] == page[("openforge_tokens_total", "prompt")] == 1
    assert page[("openforge_rollouts_ended_total", "SandboxError", "verify")] == 1
    assert page[("openforge_rollouts_ended_total", "finished", "verify")] == 1
    assert page[("openforge_rollout_stage_seconds_total", "agent")] == 2.5
    assert page[("openforge_trajectories_total", "FidelityError")] == page[("openforge_trajectories_total", "assembled")] == 1
    assert page[("openforge_tokens_settled_total", "trained")] == 3
    assert page[("openforge_groups_completed_total", "train")] == 1
    assert page[("openforge_groups_discarded_total", "no_variance")] == 1
    assert page[("openforge_pushes_failed_total", "http://e")] == 1
    assert page[("openforge_step_metric", "timing_s/step")] == 3.0


async def test_a_histogram_counts_what_lies_below_each_bound() -> None:
    watch = Watch("trainer", "r")
    for seconds in (0.05, 1.0, 1.5, 9999.0):
        watch.published(WeightsLoaded(run_id="r", version=1, push_s=seconds))
    page = await scraped(watch)
    assert [page[("openforge_push_seconds_bucket", end)] for end in ("0.1", "1", "2", "1800", "+Inf")] == [1, 2, 3, 3, 4]
    assert page[("openforge_push_seconds_count",)] == 4
    assert page[("openforge_push_seconds_sum",)] == pytest.approx(10001.55)


@pytest.mark.parametrize("service", ["proxy", "orchestrator", "collector", "trainer", "synth"])
async def test_every_service_has_its_own_metrics_from_the_start(service: str) -> None:
    page = (await Watch(service, "r").answer("/metrics")).body.decode()
    shown = set(re.findall(r"^# TYPE (openforge_\w+)", page, re.M))
    assert shown == {m.name for m in METRICS if service in m.services}
    assert f'openforge_ready{{run="r",service="{service}"}}' in page


def test_nothing_is_counted_under_a_name_that_is_not_in_the_table() -> None:
    with pytest.raises(KeyError):
        Watch("proxy").meters.add("cals_total")


def test_counting_a_call_costs_microseconds() -> None:
    watch, message = Watch("proxy"), call("r", 1)
    assert isinstance(message, CallRecorded)
    best = min(_seconds(watch, message) for _ in range(20))
    assert best < 10e-6


def _seconds(watch: Watch, message: CallRecorded) -> float:
    began = time.perf_counter()
    for _ in range(200):
        watch.published(message)
        watch.meters.observe("call_added_seconds", 0.001)
    return (time.perf_counter() - began) / 200


async def test_the_last_failures_are_told_with_their_class() -> None:
    watch = Watch("orchestrator", "r")
    for n in range(30):
        watch.published(failed("r", n, detail="no room"))
    word = await watch.word()
    assert [f.rollout_id for f in word.failures] == [f"r{n}" for n in range(10, 30)]
    assert {(f.reason, f.detail) for f in word.failures} == {("SandboxError", "no room")}
    assert isinstance(failed("r"), RolloutFailed)
