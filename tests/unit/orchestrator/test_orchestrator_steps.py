"""Tasks of several steps: when the next step begins, and what all of them are worth."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.orchestrator.runner.rewards import reached, read
from services.orchestrator.spec import PhaseStatus, Status, Strategy, is_of, phase_name
from services.orchestrator.state import Sealed, judge
from services.orchestrator.verify import one_reward
from shared.errors import AgentTimeout, VerifierError

finite = st.floats(-1e6, 1e6)


@given(finite, finite)
def test_the_next_step_begins_when_the_reward_is_enough(reward: float, wanted: float) -> None:
    for collected in ({"reward.txt": f" {reward!r}\n"}, {"reward.json": json.dumps({"reward": reward}), "reward.txt": "-1e9"}):
        assert reached(collected, {"reward": wanted}) == (reward >= wanted)
        assert reached(collected, {})


def test_every_reward_that_is_named_has_to_be_there() -> None:
    left = {"reward.json": '{"a": 1, "b": 0.5}'}
    assert reached(left, {"a": 1, "b": 0.5})
    assert not reached(left, {"a": 1, "b": 0.6})
    assert not reached(left, {"reward": 0})


@pytest.mark.parametrize(
    "left",
    [
        {}, {"reward.txt": "good"}, {"reward.json": "[1]"}, {"reward.json": "{"}, {"reward.json": '{"a": []}'},
        {"reward.json": '{"reward": 1%s}' % ("0" * 400)}, {"reward.json": "[" * 1200},
    ],
)  # fmt: skip
def test_without_a_reward_nothing_follows(left: dict[str, str]) -> None:
    assert read(left) is None
    assert not reached(left, {})


@given(st.lists(finite, min_size=1))
def test_the_reward_of_steps_is_their_mean_or_the_last(rewards: list[float]) -> None:
    assert one_reward(rewards, "final") == rewards[-1]
    assert min(rewards) - 1e-6 <= one_reward(rewards, "mean") <= max(rewards) + 1e-6


def phase(reward: str = "", *, timed_out: bool = False) -> PhaseStatus:
    return PhaseStatus(
        exit_code=0, timed_out=timed_out, limit="wall" if timed_out else None, oom=False, seconds=1.0, used={},
        collected={"reward.txt": reward} if reward else {}, too_large=[],
    )  # fmt: skip


def ended(strategy: Strategy, *steps: tuple[PhaseStatus, PhaseStatus]) -> Status:
    phases = {"health": phase()}
    for number, (agent, verify) in enumerate(steps):
        phases |= {phase_name("agent", number): agent, phase_name("verify", number): verify}
    return Status(pid=1, phase="done", error=None, phases=phases, strategy=strategy)


def test_an_attempt_of_several_steps_is_judged_as_one() -> None:
    steps = [(phase(), phase("1")), (phase(), phase("0"))]
    mean, final = (judge(ended(strategy, *steps), Sealed(2)) for strategy in ("mean", "final"))
    assert (mean.reward, final.reward, mean.agent_s, mean.verify_s, mean.limit) == (0.5, 0.0, 2.0, 2.0, None)


def test_a_step_out_of_time_makes_the_attempt_one_that_was() -> None:
    verdict = judge(ended("mean", (phase(timed_out=True), phase("0")), (phase(), phase("1"))), Sealed(2))
    assert (verdict.limit, verdict.reward) == (AgentTimeout, 0.5)


def test_a_step_without_a_reward_leaves_the_attempt_without() -> None:
    with pytest.raises(VerifierError):
        judge(ended("mean", (phase(), phase("1")), (phase(), phase())), Sealed(2))


def test_phases_are_told_by_their_names() -> None:
    assert [phase_name("agent", n) for n in range(3)] == ["agent", "agent-2", "agent-3"]
    assert [is_of("agent", name) for name in ("agent", "agent-2", "verify", "health")] == [True, True, False, False]
