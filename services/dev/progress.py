"""What a run has done so far, folded from its messages. Pure: a message in, numbers out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from shared.events import (
    CallRecorded,
    GroupCompleted,
    GroupDiscarded,
    Message,
    RolloutFailed,
    RolloutFinished,
    RolloutScheduled,
    RolloutStarted,
    RolloutTimedOut,
    RunEvaluated,
    RunFinished,
    RunStaged,
    RunStepped,
    WeightsLoaded,
)


@dataclass(slots=True)
class Progress:
    """The state that the live view draws.

    Attributes:
        stage: last stage that the trainer announced.
        running: rollouts whose agent runs, by id, with the number of their calls.
        waiting: rollouts that were accepted and have not started.
        outcomes: rollouts by outcome (`reward 1`, `reward 0`, `timed out`, a reason of failure).
        groups: groups `completed` or `discarded`.
        calls: recorded calls.
        tokens: sampled tokens.
        version: weight version that is served; -1 before the first.
        rewards: mean reward of each training step.
        steps: ended training steps.
        evaluations: held-out success by label.
        finished: the run's last message.
    """

    stage: RunStaged | None = None
    running: dict[str, int] = field(default_factory=dict)
    waiting: set[str] = field(default_factory=set)
    outcomes: Counter[str] = field(default_factory=Counter)
    groups: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    tokens: int = 0
    version: int = -1
    rewards: list[float] = field(default_factory=list)
    steps: int = 0
    evaluations: dict[str, RunEvaluated] = field(default_factory=dict)
    finished: RunFinished | None = None

    def apply(self, message: Message) -> None:
        """Folds one message in."""
        match message:
            case RolloutScheduled() | RolloutStarted() | RolloutFinished() | RolloutTimedOut() | RolloutFailed():
                self._rollout(message)
            case CallRecorded():
                self.calls += 1
                self.tokens += len(message.completion) // 4
                if message.rollout_id in self.running:
                    self.running[message.rollout_id] += 1
            case GroupCompleted() | GroupDiscarded():
                self.groups["completed" if isinstance(message, GroupCompleted) else "discarded"] += 1
            case RunStaged():
                self.stage = message
            case RunStepped():
                self.steps = message.step
                self.rewards.append(message.metrics.get("critic/rewards/mean", 0.0))
            case RunEvaluated():
                self.evaluations[message.label] = message
            case WeightsLoaded():
                self.version = message.version
            case RunFinished():
                self.finished = message
            case _:
                pass

    def _rollout(self, message: Message) -> None:
        match message:
            case RolloutScheduled():
                self.waiting.add(message.rollout_id)
            case RolloutStarted():
                self.waiting.discard(message.rollout_id)
                self.running[message.rollout_id] = 0
            case RolloutFinished():
                self._ended(message.rollout_id, f"reward {message.reward:g}")
            case RolloutTimedOut():
                self._ended(message.rollout_id, "timed out")
            case RolloutFailed():
                self._ended(message.rollout_id, message.reason if message.final else "retried")
            case _:
                pass

    def _ended(self, rollout_id: str, outcome: str) -> None:
        self.running.pop(rollout_id, None)
        self.waiting.discard(rollout_id)
        self.outcomes[outcome] += 1
