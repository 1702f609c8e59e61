from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.orchestrator.accounts import Account
from services.orchestrator.spec import Status
from services.orchestrator.state import Rollout, Sealed, disowned, failed, judge, judge_gone, judged, scheduled, started, tossed
from services.orchestrator.verify import coin
from shared.errors import (
    POLICIES,
    AgentMemory,
    AgentStorage,
    AgentTimeout,
    Cancelled,
    ConfigError,
    EngineError,
    FidelityError,
    ForgeError,
    HarnessCrash,
    SandboxError,
    TaskError,
    VerifierError,
    policy_of,
)
from shared.events import RolloutFinished, RolloutStart, RolloutTimedOut, TrajectoryDiscarded
from tests.unit.orchestrator.statuses import phase_status

START = RolloutStart(
    run_id="run1", rollout_id="r1", group_id="g1", purpose="eval", group_size=4, task_dir="/t", harness="react"
)
NEW = Rollout(START, "demo/t", attempts=3)
REPORTED = replace(NEW, phase="reported")
NOTHING = Account()
errors = st.sampled_from([*POLICIES, ConfigError])


def done(reward: str = "1", timed_out: bool = False, collected: bool = True) -> Status:
    """A runner that went through both phases."""
    agent = phase_status(exit_code=3, timed_out=timed_out, seconds=2.0)
    verify = phase_status(seconds=0.5, collected={"reward.txt": reward} if collected else {})
    return Status(pid=1, phase="done", error=None, phases={"agent": agent, "verify": verify})


def refusal(attempt: int = 1, reason: str = "FidelityError") -> TrajectoryDiscarded:
    return TrajectoryDiscarded(run_id="run1", rollout_id="r1", group_id="g1", attempt=attempt, reason=reason, detail="digest")


def test_a_rollout_that_goes_well() -> None:
    assert (scheduled(NEW).attempt, scheduled(NEW).task, scheduled(NEW).purpose) == (1, "demo/t", "eval")
    running, message = started(NEW, "bubblewrap", "here", NOTHING)
    assert (running.phase, running.over, message.sandbox) == ("started", False, "bubblewrap")
    after, outcome = judged(running, judge(done(), Sealed(2)), 9, NOTHING)
    assert isinstance(outcome, RolloutFinished)
    assert (after.phase, after.over) == ("reported", True)
    assert (outcome.reward, outcome.exit_code, outcome.agent_s, outcome.verify_s, outcome.group_size) == (1.0, 3, 2.0, 0.5, 4)


@pytest.mark.parametrize(("collected", "reward"), [(True, 0.5), (False, None)])
def test_a_timeout_is_told_with_the_reward_of_what_was_reached(collected: bool, reward: float | None) -> None:
    after, outcome = judged(NEW, judge(done("0.5", timed_out=True, collected=collected), Sealed(2)), 9, NOTHING)
    assert isinstance(outcome, RolloutTimedOut)
    assert (outcome.reward, outcome.limit_s, outcome.agent_s, after.phase) == (reward, 9, 2.0, "reported")


@pytest.mark.parametrize(
    ("status", "sealed", "kind"),
    [
        ({"phase": "cancelled"}, Sealed(0), Cancelled),
        ({"phase": "failed", "error": "disk full"}, Sealed(0), SandboxError),
        ({"phase": "agent"}, Sealed(0), SandboxError),
        ({"phase": "failed", "error": "there is no user 'x' here", "of_task": True}, Sealed(0), TaskError),
        ({}, Sealed(3, lost=(2,)), FidelityError),
        ({}, Sealed(2, errored=(1, 2)), EngineError),
    ],
)
def test_what_makes_an_attempt_worthless(status: Status, sealed: Sealed, kind: type[ForgeError]) -> None:
    merged: Status = {**done(), **status}
    with pytest.raises(kind):
        judge(merged, sealed)


def test_a_sandbox_that_went_with_its_agent_has_no_reward_and_its_calls_count_all_the_same() -> None:
    verdict = judge_gone(AgentMemory, Sealed(2, errored=(2,)), 3.0)
    assert (verdict.reward, verdict.limit, verdict.agent_s) == (None, AgentMemory, 3.0)
    with pytest.raises(FidelityError):
        judge_gone(AgentMemory, Sealed(3, lost=(2,)), 3.0)
    with pytest.raises(EngineError):
        judge_gone(AgentStorage, Sealed(1, errored=(1,)), 3.0)


def test_some_errored_calls_are_judged_by_the_reward() -> None:
    assert judge(done(), Sealed(3, errored=(1, 2))).reward == 1.0


def test_a_harness_that_failed_without_a_call_is_no_agents_failure() -> None:
    with pytest.raises(HarnessCrash, match="exit code 3 before it made a model call"):
        judge(done("0"), Sealed(0))


def test_an_agent_without_a_call_that_ended_well_or_by_a_limit_or_needs_no_model_is_judged_by_the_reward() -> None:
    well = done()
    well["phases"]["agent"]["exit_code"] = 0
    assert judge(well, Sealed(0)).reward == 1.0
    assert judge(done(timed_out=True), Sealed(0)).limit is AgentTimeout
    assert judge(done("0"), Sealed(0), model=False).reward == 0.0


def test_a_harness_that_never_starts_is_tried_twice_again_however_many_attempts_there_are() -> None:
    rollout, finals = Rollout(START, "t", attempts=9), []
    while not rollout.over:
        rollout, message = failed(rollout, HarnessCrash("exit code 1"), NOTHING, sealed=True)
        finals.append(message.final)
    assert finals == [False, False, True]


def test_an_agent_in_time_without_a_reward_is_the_verifiers_failure() -> None:
    with pytest.raises(VerifierError):
        judge(done(collected=False), Sealed(1))


@given(errors, st.integers(1, 5), st.data())
def test_another_attempt_follows_exactly_when_policy_and_number_allow(
    kind: type[ForgeError], attempts: int, data: st.DataObject
) -> None:
    attempt = data.draw(st.integers(1, attempts))
    after, message = failed(Rollout(START, "t", attempts, attempt), kind("why"), NOTHING, sealed=True)
    again = policy_of(kind).retry and attempt < min(attempts, policy_of(kind).most or attempts)
    assert message.final is not again
    assert (message.reason, message.attempt) == (kind.__name__, attempt)
    assert (after.phase, after.attempt) == (("scheduled", attempt + 1) if again else ("closed", attempt))


@given(st.integers(1, 6))
def test_infrastructure_failures_end_after_as_many_attempts_as_are_allowed(attempts: int) -> None:
    rollout, messages = Rollout(START, "t", attempts), []
    while not rollout.over:
        rollout, message = failed(rollout, SandboxError("lost"), NOTHING, sealed=True)
        messages.append(message)
    assert [m.attempt for m in messages] == list(range(1, attempts + 1))
    assert [m.final for m in messages] == [False] * (attempts - 1) + [True]


def test_details_are_one_line_of_bounded_length() -> None:
    _, message = failed(NEW, SandboxError("a\nb\t" + "x" * 5000), NOTHING, sealed=False)
    assert message.detail.startswith("a b x")
    assert len(message.detail) == 1000


def test_a_refused_trajectory_gives_a_new_attempt_or_the_final_failure() -> None:
    again = disowned(REPORTED, refusal())
    assert again is not None
    assert (again[0].phase, again[0].attempt, again[1].final) == ("scheduled", 2, False)
    last = disowned(replace(REPORTED, attempt=3), refusal(attempt=3))
    assert last is not None
    assert (last[0].phase, last[1].final, last[1].reason) == ("closed", True, "FidelityError")


@pytest.mark.parametrize(
    ("rollout", "message"),
    [
        (REPORTED, refusal(reason="no_variance")),
        (replace(REPORTED, attempt=2), refusal(attempt=1)),
        (NEW, refusal()),
        (replace(NEW, phase="closed"), refusal()),
    ],
)
def test_other_refusals_change_nothing(rollout: Rollout, message: TrajectoryDiscarded) -> None:
    assert disowned(rollout, message) is None


def test_a_coin_takes_the_place_of_a_reward_but_makes_none() -> None:
    verdict = judge(done("0.5"), Sealed(1))
    assert tossed(verdict, "r1").reward == coin("r1")
    assert tossed(replace(verdict, reward=None), "r1").reward is None
