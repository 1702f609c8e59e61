"""What a service counts of its own messages: whatever matters is said on the bus, so that this is the one place to count it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from shared.events import (
    CallRecorded,
    GroupCompleted,
    GroupDiscarded,
    GroupMessage,
    Message,
    OutcomeMessage,
    RolloutFailed,
    RolloutFinished,
    RolloutStarted,
    RolloutTimedOut,
    RunStepped,
    TrajectoryAssembled,
    TrajectoryDiscarded,
    WeightsFailed,
    WeightsLoaded,
    WeightsPublished,
    tag_of,
)
from shared.watch.meters import Meters


def count(meters: Meters, message: Message) -> None:
    """Counts a message that was published for the first time."""
    fold = _FOLDS.get(type(message))
    if fold is not None:
        fold(meters, message)


def outcome_of(message: OutcomeMessage) -> str:
    """`finished`, `timed_out`, or the class of the error."""
    return message.reason if isinstance(message, RolloutFailed) else tag_of(type(message)).partition(".")[2]


def _call(meters: Meters, m: CallRecorded) -> None:
    meters.add("calls_total", 1, m.api, m.delivery)
    meters.add("tokens_total", m.prompt_len, "prompt")
    meters.add("tokens_total", len(m.completion) // 4, "sampled")
    meters.observe("call_seconds", m.latency_s)


def _started(meters: Meters, m: RolloutStarted) -> None:
    meters.add("rollouts_started_total", 1, m.sandbox)


def _ended(meters: Meters, m: OutcomeMessage) -> None:
    meters.add("rollouts_ended_total", 1, outcome_of(m), m.stage)
    for name in m.durations.__struct_fields__:
        if seconds := getattr(m.durations, name):
            meters.add("rollout_stage_seconds_total", seconds, name.removesuffix("_s"))


def _assembled(meters: Meters, m: TrajectoryAssembled) -> None:
    meters.add("trajectories_total", 1, "assembled")


def _discarded(meters: Meters, m: TrajectoryDiscarded) -> None:
    meters.add("trajectories_total", 1, m.reason)


def _group(meters: Meters, m: GroupMessage) -> None:
    if isinstance(m, GroupDiscarded):
        meters.add("groups_discarded_total", 1, m.reason)
    else:
        meters.add("groups_completed_total", 1, m.purpose)
    for fate in ("trained", "masked", "dropped"):
        meters.add("tokens_settled_total", getattr(m.tokens, fate), fate)


def _stepped(meters: Meters, m: RunStepped) -> None:
    meters.add("steps_total")
    meters.observe("step_seconds", m.metrics.get("timing_s/step", 0.0))
    meters.replace("step_metric", {(key,): value for key, value in m.metrics.items()})


def _loaded(meters: Meters, m: WeightsLoaded) -> None:
    meters.observe("push_seconds", m.push_s)


def _failed(meters: Meters, m: WeightsFailed) -> None:
    meters.add("pushes_failed_total", 1, m.engine)


def _published(meters: Meters, m: WeightsPublished) -> None:
    meters.set("weight_version", m.version)


_FOLDS: dict[type[msgspec.Struct], Callable[[Meters, Any], None]] = {
    CallRecorded: _call,
    RolloutStarted: _started,
    RolloutFinished: _ended, RolloutTimedOut: _ended, RolloutFailed: _ended,
    TrajectoryAssembled: _assembled, TrajectoryDiscarded: _discarded,
    GroupCompleted: _group, GroupDiscarded: _group,
    RunStepped: _stepped,
    WeightsLoaded: _loaded, WeightsFailed: _failed, WeightsPublished: _published,
}  # fmt: skip
