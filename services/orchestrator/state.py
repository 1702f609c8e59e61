"""A rollout's life. Pure: what is known goes in, the next state and the message to publish come out.

scheduled ──▶ started ──▶ reported (finished or out of time)      its trajectory may still be refused: a new attempt
    ▲            │ └────▶ closed   (failed for good)
    └────────────┘ an attempt failed, another one follows
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from services.orchestrator.accounts import Account
from services.orchestrator.spec import Limit, Status, is_of
from services.orchestrator.verify import coin, one_reward, read_reward
from shared.errors import (
    AgentIdle,
    AgentStorage,
    AgentTimeout,
    Cancelled,
    EngineError,
    FidelityError,
    ForgeError,
    HarnessCrash,
    SandboxError,
    TaskError,
    VerifierError,
    policy_of,
)
from shared.events import (
    RolloutFailed,
    RolloutFinished,
    RolloutMessage,
    RolloutScheduled,
    RolloutStart,
    RolloutStarted,
    RolloutTimedOut,
    TrajectoryDiscarded,
)

Phase = Literal["scheduled", "started", "reported", "closed"]
M = TypeVar("M", bound=RolloutMessage)
Outcome = RolloutFinished | RolloutTimedOut | RolloutFailed

DETAIL_CHARS = 1000
_LIMITS: dict[Limit, type[AgentTimeout]] = {"wall": AgentTimeout, "idle": AgentIdle, "storage": AgentStorage}


@dataclass(frozen=True, slots=True)
class Sealed:
    """What the proxy counted when it sealed a session: numbers given out, and those that errored or were lost."""

    calls: int
    errored: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """An attempt that can be judged by its reward (None: a limit was reached, and there is nothing to judge it by).

    `limit` is the limit that ended the agent, if one did. Times in seconds.
    """

    reward: float | None
    limit: type[AgentTimeout] | None
    exit_code: int | None
    agent_s: float
    verify_s: float


@dataclass(frozen=True, slots=True)
class Rollout:
    """Where a rollout stands.

    Attributes:
        start: the command that asked for it.
        task: name of its task.
        attempts: how many it may have.
        attempt: the current one, from 1.
        phase: of the current attempt.
    """

    start: RolloutStart
    task: str
    attempts: int
    attempt: int = 1
    phase: Phase = "scheduled"

    @property
    def over(self) -> bool:
        """Nothing is being done for it."""
        return self.phase in ("reported", "closed")


def judge(status: Status, sealed: Sealed, *, model: bool = True) -> Verdict:
    """What an attempt that ended is worth.

    Args:
        status: its runner's last one.
        sealed: its calls.
        model: its harness is one that calls a model.

    Raises:
        Cancelled, SandboxError, TaskError, FidelityError, EngineError, HarnessCrash, VerifierError: it is worth nothing, for
            that reason.
    """
    if status["phase"] == "cancelled":
        raise Cancelled("somebody asked for its end")
    if status["phase"] != "done":
        kind = TaskError if status.get("of_task") else SandboxError
        raise kind(status["error"] or f"the runner stopped in its phase {status['phase']!r}")
    _recorded(sealed)
    agents = [phase for name, phase in status["phases"].items() if is_of("agent", name)]
    verifications = [phase for name, phase in status["phases"].items() if is_of("verify", name)]
    limit = next((_LIMITS[agent["limit"] or "wall"] for agent in agents if agent["timed_out"]), None)
    code = next((agent["exit_code"] for agent in agents if agent["exit_code"]), 0)
    if model and code and not sealed.calls and limit is None:
        raise HarnessCrash(f"the harness ended with exit code {code} before it made a model call; what it said is in its log")
    try:
        reward = one_reward([read_reward(verify) for verify in verifications], status.get("strategy", "mean"))
    except VerifierError:
        if limit is None:
            raise
        reward = None
    agent_s, verify_s = (sum(phase["seconds"] for phase in phases) for phases in (agents, verifications))
    return Verdict(reward, limit, agents[-1]["exit_code"], agent_s, verify_s)


def judge_gone(limit: type[AgentTimeout], sealed: Sealed, agent_s: float) -> Verdict:
    """What an attempt is worth whose sandbox went with its agent: there is nothing left to verify.

    Raises:
        FidelityError, EngineError: it is worth nothing, for that reason.
    """
    _recorded(sealed)
    return Verdict(None, limit, None, agent_s, 0.0)


def _recorded(sealed: Sealed) -> None:
    if sealed.lost:
        raise FidelityError(f"calls {list(sealed.lost)} of {sealed.calls} have no durable record")
    if sealed.calls and len(sealed.errored) == sealed.calls:
        raise EngineError(f"all {sealed.calls} model calls ended in errors")


def tossed(verdict: Verdict, rollout_id: str) -> Verdict:
    """The verdict of a control run: a coin in the place of the verifier's reward."""
    return verdict if verdict.reward is None else replace(verdict, reward=coin(rollout_id))


def scheduled(rollout: Rollout) -> RolloutScheduled:
    """The message that the current attempt was accepted."""
    return _message(RolloutScheduled, rollout, **_named(rollout))


def started(rollout: Rollout, sandbox: str, where: str, account: Account) -> tuple[Rollout, RolloutStarted]:
    """The current attempt's agent runs, in that kind of sandbox on that machine."""
    message = _message(RolloutStarted, rollout, sandbox=sandbox, where=where, durations=account.durations)
    return replace(rollout, phase="started"), message


def judged(rollout: Rollout, verdict: Verdict, limit_s: float, account: Account) -> tuple[Rollout, Outcome]:
    """The current attempt ended with a verdict; `limit_s` is the wall-clock limit that its agent had."""
    fields = {**_named(rollout), **_spent(account), "reward": verdict.reward, "agent_s": verdict.agent_s}
    if verdict.limit:
        reason = verdict.limit.__name__
        message: Outcome = _message(RolloutTimedOut, rollout, **fields | {"stage": "agent"}, limit_s=limit_s, reason=reason)
    else:
        message = _message(RolloutFinished, rollout, **fields, exit_code=verdict.exit_code, verify_s=verdict.verify_s)
    return replace(rollout, phase="reported"), message


def failed(rollout: Rollout, error: ForgeError, account: Account, *, sealed: bool) -> tuple[Rollout, RolloutFailed]:
    """The current attempt ended with an error: another attempt follows if the error's policy and their number allow it.

    `sealed`: its session was sealed, so that the collector waits for the sealing and counts every call.
    """
    policy = policy_of(error)
    again = policy.retry and rollout.attempt < min(rollout.attempts, policy.most or rollout.attempts)
    detail = " ".join(str(error).split())[:DETAIL_CHARS]
    fields = {**_named(rollout), **_spent(account), "reason": type(error).__name__, "detail": detail, "sealed": sealed}
    message = _message(RolloutFailed, rollout, **fields, final=not again)
    if again:
        return replace(rollout, phase="scheduled", attempt=rollout.attempt + 1), message
    return replace(rollout, phase="closed"), message


def disowned(rollout: Rollout, refusal: TrajectoryDiscarded) -> tuple[Rollout, RolloutFailed] | None:
    """The collector refused the trajectory of a reported attempt: that attempt failed after all.

    None when it changes nothing: another reason than broken records, an older attempt, or a rollout that is not reported.
    """
    current = refusal.attempt == rollout.attempt and rollout.phase == "reported"
    if refusal.reason != FidelityError.__name__ or not current:
        return None
    return failed(rollout, FidelityError(refusal.detail), Account(stage="verify"), sealed=True)


def _message(kind: type[M], rollout: Rollout, **fields: Any) -> M:
    s = rollout.start
    return kind(
        run_id=s.run_id, rollout_id=s.rollout_id, attempt=rollout.attempt, group_id=s.group_id, purpose=s.purpose, **fields
    )  # fmt: skip


def _spent(account: Account) -> dict[str, Any]:
    return {"stage": account.stage, "durations": account.durations, "used": account.used, "image": account.image}


def _named(rollout: Rollout) -> dict[str, Any]:
    return {"group_size": rollout.start.group_size, "task": rollout.task, "harness": rollout.start.harness}
