"""One rollout, attempt by attempt."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from shared.clock import unix
from shared.events.base import Duration, Number, RolloutMessage, Seconds

Stage = Literal["queue", "schedule", "pull", "boot", "agent", "verify"]
"""Of an attempt: it waits for a place, for a machine, for the image, for the sandbox's runner; its agent runs, its verifier."""
Priority = Annotated[int, Meta(ge=0, le=1000)]
"""Rollouts of a higher one begin first."""
Variables = Annotated[
    dict[Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}\Z")], Annotated[str, Meta(pattern=r"^[^\x00]{0,4000}\Z")]],
    Meta(max_length=32),
]
"""Environment variables."""
Megabytes = Annotated[float, Meta(ge=0, le=1e9)]
"""MiB of memory."""


class Durations(msgspec.Struct, frozen=True, kw_only=True):
    """Wall-clock seconds that an attempt spent in each stage.

    Attributes:
        queue_s: waiting for a place among the concurrent rollouts.
        schedule_s: until a machine was found.
        pull_s: until the image was there.
        boot_s: until the sandbox's runner ran.
        agent_s: of the agent.
        verify_s: of the verifier.
    """

    queue_s: Duration = 0.0
    schedule_s: Duration = 0.0
    pull_s: Duration = 0.0
    boot_s: Duration = 0.0
    agent_s: Duration = 0.0
    verify_s: Duration = 0.0


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """What the sandbox of an attempt used, where that is known.

    Attributes:
        cpu_s: seconds of processor time.
        memory_mb: MiB of memory at the peak.
    """

    cpu_s: Duration = 0.0
    memory_mb: Megabytes = 0.0


class OutcomeMessage(RolloutMessage, frozen=True, kw_only=True):
    """How an attempt ended.

    Attributes:
        group_size: rollouts in the group.
        task: name of the task.
        harness: name of the harness adapter.
        stage: that the attempt was in when that was decided.
        durations: seconds by stage.
        used: resources.
        image: digest of the image that its agent's sandbox ran, as the backend names it; empty where there is none.
    """

    group_size: Number
    task: str
    harness: str
    stage: Stage = "verify"
    durations: Durations = Durations()
    used: Used = Used()
    image: Annotated[str, Meta(max_length=500)] = ""


class RolloutStart(RolloutMessage, frozen=True, kw_only=True, tag="rollout.start"):
    """Asks the orchestrator to run one rollout.

    Attributes:
        group_size: rollouts in the group.
        task_dir: absolute path of the Harbor-format task folder.
        harness: name of the harness adapter.
        sampling: sampling parameters that override the harness's own (`temperature`, `top_p`, `max_tokens`, `seed`).
        timeout_s: wall-clock limit of the agent in seconds; None takes the task's, then the configured one.
        priority: rollouts of a higher one begin first.
        clock: ISO time that the sandbox's programs see when its first one starts; empty takes `orchestrator.clock`.
        clock_for: whose programs see it: `all`, or the `verifier`'s alone.
        env: variables of agent and verifier, over the sandbox's own; those of the task and the harness come over them.
    """

    group_size: Number
    task_dir: str
    harness: str
    sampling: dict[str, Any] = {}
    timeout_s: Seconds | None = None
    priority: Priority = 0
    clock: Annotated[str, Meta(max_length=40)] = ""
    clock_for: Literal["all", "verifier"] = "all"
    env: Variables = {}

    def __post_init__(self) -> None:
        """Checks what types cannot say."""
        if self.clock:
            unix(self.clock)


class RolloutCancel(RolloutMessage, frozen=True, kw_only=True, tag="rollout.cancel"):
    """Asks the orchestrator to end a rollout at once."""

    reason: str = "cancelled"


class RolloutScheduled(RolloutMessage, frozen=True, kw_only=True, tag="rollout.scheduled"):
    """An attempt was accepted and waits for a place."""

    group_size: Number
    task: str
    harness: str


class RolloutStarted(RolloutMessage, frozen=True, kw_only=True, tag="rollout.started"):
    """The agent of an attempt runs.

    Attributes:
        sandbox: kind of isolation.
        where: machine that it runs on, for a person.
        durations: seconds by stage, until here.
    """

    sandbox: str
    where: str = ""
    durations: Durations = Durations()


class RolloutFinished(OutcomeMessage, frozen=True, kw_only=True, tag="rollout.finished"):
    """The agent ended and the verifier decided. Last message of the rollout.

    Attributes:
        reward: the verifier's, finite.
        exit_code: of the agent; it decides nothing.
        agent_s: wall-clock seconds of the agent.
        verify_s: wall-clock seconds of the verifier.
    """

    reward: float
    exit_code: int | None = None
    agent_s: Duration = 0.0
    verify_s: Duration = 0.0


class RolloutTimedOut(OutcomeMessage, frozen=True, kw_only=True, tag="rollout.timed_out"):
    """The agent reached a limit of its own and was ended with all it had started. Last message of the rollout.

    Attributes:
        reason: which limit, as a class name from `shared.errors`: `AgentTimeout` (wall clock), `AgentIdle`, `AgentStorage`,
            `AgentMemory`.
        reward: of the state it had reached; None when the verifier left none, or the sandbox went with the agent. The group's
            timeout policy decides on its use.
        limit_s: its wall-clock limit in seconds.
        agent_s: wall-clock seconds of the agent.
    """

    reason: str = "AgentTimeout"
    reward: float | None = None
    limit_s: Duration
    agent_s: Duration = 0.0


class RolloutFailed(OutcomeMessage, frozen=True, kw_only=True, tag="rollout.failed"):
    """An attempt ended without a reward that could be used.

    Attributes:
        reason: class name from `shared.errors`.
        detail: one line for a person.
        final: no further attempt follows; last message of the rollout.
        sealed: the attempt's session was sealed, so that the collector can wait for its `SessionSealed` and count every call.
    """

    reason: str
    detail: str = ""
    final: bool = True
    sealed: bool = False
