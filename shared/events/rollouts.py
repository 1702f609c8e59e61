"""One rollout, attempt by attempt."""

from __future__ import annotations

from typing import Any

from shared.events.base import Duration, Number, RolloutMessage, Seconds


class RolloutStart(RolloutMessage, frozen=True, kw_only=True, tag="rollout.start"):
    """Asks the orchestrator to run one rollout.

    Attributes:
        group_size: rollouts in the group.
        task_dir: absolute path of the Harbor-format task folder.
        harness: name of the harness adapter.
        sampling: sampling parameters that override the harness's own (`temperature`, `top_p`, `max_tokens`, `seed`).
        timeout_s: wall-clock limit of the agent in seconds; None takes the task's, then the configured one.
    """

    group_size: Number
    task_dir: str
    harness: str
    sampling: dict[str, Any] = {}
    timeout_s: Seconds | None = None


class RolloutCancel(RolloutMessage, frozen=True, kw_only=True, tag="rollout.cancel"):
    """Asks the orchestrator to end a rollout at once."""

    reason: str = "cancelled"


class RolloutScheduled(RolloutMessage, frozen=True, kw_only=True, tag="rollout.scheduled"):
    """An attempt was accepted and waits for a place."""

    group_size: Number
    task: str
    harness: str


class RolloutStarted(RolloutMessage, frozen=True, kw_only=True, tag="rollout.started"):
    """The agent of an attempt runs. `sandbox` names the kind of isolation."""

    sandbox: str


class RolloutFinished(RolloutMessage, frozen=True, kw_only=True, tag="rollout.finished"):
    """The agent ended and the verifier decided. Last message of the rollout.

    Attributes:
        group_size: rollouts in the group.
        task: name of the task.
        harness: name of the harness adapter.
        reward: the verifier's, finite.
        exit_code: of the agent; it decides nothing.
        agent_s: wall-clock seconds of the agent.
        verify_s: wall-clock seconds of the verifier.
    """

    group_size: Number
    task: str
    harness: str
    reward: float
    exit_code: int | None = None
    agent_s: Duration = 0.0
    verify_s: Duration = 0.0


class RolloutTimedOut(RolloutMessage, frozen=True, kw_only=True, tag="rollout.timed_out"):
    """The agent used up its wall-clock time and was ended with all it had started. Last message of the rollout.

    Attributes:
        reward: of the state it had reached; None when the verifier left none. The group's timeout policy decides on its use.
    """

    group_size: Number
    task: str
    harness: str
    reward: float | None = None
    limit_s: Duration
    agent_s: Duration = 0.0


class RolloutFailed(RolloutMessage, frozen=True, kw_only=True, tag="rollout.failed"):
    """An attempt ended without a reward that could be used.

    Attributes:
        reason: class name from `shared.errors`.
        detail: one line for a person.
        final: no further attempt follows; last message of the rollout.
        sealed: the attempt's session was sealed, so that the collector can wait for its `SessionSealed` and count every call.
    """

    group_size: Number
    task: str
    harness: str
    reason: str
    detail: str = ""
    final: bool = True
    sealed: bool = False
