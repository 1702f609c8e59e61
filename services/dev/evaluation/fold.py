"""Episodes, folded from the messages about them. Pure: a message in, ended groups out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from services.dev.evaluation.taskset import Known
from services.trainer.evaluation.report import Episode
from shared.events import (
    GroupCompleted,
    GroupDiscarded,
    Message,
    RolloutFailed,
    RolloutFinished,
    RolloutTimedOut,
    TrajectoryAssembled,
    TrajectoryDiscarded,
)

TIMED_OUT = "timed_out"
UNHEARD = "deadline"
"""Outcome of a rollout of which nothing was heard until its group was closed."""
KINDS: tuple[type[Message], ...] = (
    RolloutFinished, RolloutTimedOut, RolloutFailed, TrajectoryAssembled, TrajectoryDiscarded, GroupCompleted, GroupDiscarded,
)  # fmt: skip

_Ended = RolloutFinished | RolloutTimedOut | RolloutFailed
_Settled = TrajectoryAssembled | TrajectoryDiscarded


@dataclass(frozen=True, slots=True)
class Planned:
    """A group: all tries at one task in one harness."""

    group_id: str
    task: Known
    harness: str
    rollouts: tuple[str, ...]


@dataclass(slots=True)
class Fold:
    """What is known of rollouts that go on."""

    _ended: dict[str, _Ended] = field(default_factory=dict)
    _settled: dict[str, _Settled] = field(default_factory=dict)

    def add(self, message: Message, open_groups: Mapping[str, Planned]) -> list[Episode]:
        """Takes a message in; the episodes of the group that it closes, if it does. The collector closes groups last of all."""
        match message:
            case RolloutFinished() | RolloutTimedOut() | RolloutFailed():
                self._ended[message.rollout_id] = message
            case TrajectoryAssembled():
                self._settled[message.rollout_id] = message
            case TrajectoryDiscarded():
                if not isinstance(self._settled.get(message.rollout_id), TrajectoryAssembled):
                    self._settled[message.rollout_id] = message
            case GroupCompleted() | GroupDiscarded():
                if plan := open_groups.get(message.group_id):
                    return [self._episode(plan, rollout) for rollout in plan.rollouts]
            case _:
                pass
        return []

    def _episode(self, plan: Planned, rollout: str) -> Episode:
        ended, settled = self._ended.pop(rollout, None), self._settled.pop(rollout, None)
        outcome, reward, detail = _verdict(ended, settled)
        return Episode(
            task=plan.task.name, family=plan.task.family, harness=plan.harness, rollout_id=rollout, outcome=outcome,
            reward=reward, calls=settled.calls if isinstance(settled, TrajectoryAssembled) else 0,
            tokens=settled.tokens.sampled if settled else 0, agent_s=ended.durations.agent_s if ended else 0.0,
            attempts=ended.attempt if ended else 0, detail=detail,
        )  # fmt: skip


def _verdict(ended: _Ended | None, settled: _Settled | None) -> tuple[str, float | None, str]:
    """(outcome, reward, detail). One that ran out of time is scored, also where that left nothing to verify."""
    match settled:
        case TrajectoryAssembled():
            return TIMED_OUT if isinstance(ended, RolloutTimedOut) else "finished", settled.reward, ""
        case TrajectoryDiscarded():
            return settled.reason, 0.0 if settled.reason == TIMED_OUT else None, settled.detail
        case None:
            return UNHEARD, None, "nothing was heard of it until collector.deadline_s"
