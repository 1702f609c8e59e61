"""How long an agent may run, learned from others."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.orchestrator.limits import KINDS, LATEST, Limits, Took, seconds_of
from services.orchestrator.state import Outcome
from shared.config import AutoConfig, OrchestratorConfig
from shared.events import RolloutFailed, RolloutFinished, RolloutTimedOut
from shared.task import family_of

MOST, FLOOR, SAMPLE = 600.0, 30.0, 10
seconds = st.floats(0, 2 * MOST)
samples = st.lists(st.builds(Took, seconds, st.booleans()), min_size=1, max_size=60)
shares = st.integers(1, 99).map(lambda percent: percent / 100)


def limits(**changes: Any) -> Limits:
    auto = AutoConfig(**{"quantile": 0.9, "factor": 2.0, "sample": SAMPLE, "floor_s": FLOOR, **changes})
    return Limits(OrchestratorConfig(timeout="auto", timeout_s=MOST, auto=auto))


def outcome(took: Took, harness: str = "react") -> Outcome:
    named: dict[str, Any] = {
        "run_id": "run", "rollout_id": "r", "attempt": 1, "group_id": "g", "group_size": 2, "task": "t", "harness": harness,
        "agent_s": took.seconds,
    }  # fmt: skip
    return RolloutFinished(**named, reward=1.0) if took.ended else RolloutTimedOut(**named, limit_s=took.seconds)


def taught(history: list[Took], **changes: Any) -> float:
    """The limit after those have ended."""
    learned = limits(**changes)
    for took in history:
        learned.learn("f", outcome(took))
    return learned.limit_s("react", "f")


def test_agents_get_twice_the_time_within_which_nine_of_ten_ended() -> None:
    assert taught([Took(float(n), True) for n in range(1, 101)]) == 180.0


def test_without_enough_that_ended_the_configured_limit_holds() -> None:
    assert taught([Took(50.0, True)] * (SAMPLE - 1)) == MOST
    assert taught([Took(50.0, True)] * SAMPLE) == 100.0


def test_a_fixed_limit_learns_nothing() -> None:
    fixed = Limits(OrchestratorConfig(timeout_s=MOST))
    for _ in range(50):
        fixed.learn("f", outcome(Took(1.0, True)))
    assert fixed.limit_s("react", "f") == MOST


@given(samples, st.floats(1.01, 10), shares, st.floats(0.1, 2 * MOST))
def test_a_limit_lies_between_floor_and_ceiling(sample: list[Took], factor: float, share: float, floor: float) -> None:
    limit = taught(sample, factor=factor, quantile=share, floor_s=floor, sample=1)
    assert min(floor, MOST) <= limit <= MOST


@given(samples, shares, st.data())
def test_whoever_takes_longer_makes_no_limit_shorter(sample: list[Took], share: float, data: st.DataObject) -> None:
    before = seconds_of(share, sample)
    which = data.draw(st.integers(0, len(sample) - 1))
    longer = Took(data.draw(st.floats(sample[which].seconds, 3 * MOST)), sample[which].ended)
    assert seconds_of(share, [*sample[:which], longer, *sample[which + 1 :]]) >= before


@given(samples, shares, st.data())
def test_one_that_was_cut_short_counts_for_at_least_as_long_as_one_that_ended(
    sample: list[Took], share: float, data: st.DataObject
) -> None:
    which = data.draw(st.integers(0, len(sample) - 1))
    took = sample[which]
    ended, cut = ([*sample[:which], Took(took.seconds, end), *sample[which + 1 :]] for end in (True, False))
    assert seconds_of(share, cut) >= seconds_of(share, ended)


@given(st.lists(seconds, min_size=1, max_size=60), shares)
def test_where_nobody_was_cut_short_it_is_the_plain_quantile(sample: list[float], share: float) -> None:
    place = math.ceil(share * len(sample) - 1e-6) - 1
    assert seconds_of(share, [Took(took, True) for took in sample]) == sorted(sample)[place]


def test_a_limit_that_became_too_short_rises_again_until_agents_have_the_time_they_need() -> None:
    learned = limits()
    for _ in range(LATEST):
        learned.learn("f", outcome(Took(20.0, True)))
    assert learned.limit_s("react", "f") == 40.0
    seen = []
    for _ in range(LATEST):  # from now on each would take 150 s
        limit = learned.limit_s("react", "f")
        seen.append(limit)
        learned.learn("f", outcome(Took(min(150.0, limit), limit > 150.0)))
    assert seen == sorted(seen)
    assert 150.0 < seen[-1] <= 300.0


def test_kinds_are_told_apart_and_failures_say_nothing() -> None:
    learned = limits()
    failure = RolloutFailed(
        run_id="run", rollout_id="r", attempt=1, group_id="g", group_size=2, task="t", harness="react", reason="SandboxError"
    )  # fmt: skip
    for _ in range(SAMPLE):
        learned.learn("f", outcome(Took(50.0, True)))
        learned.learn("f", outcome(Took(70.0, True), "codex"))
        learned.learn("other", failure)
    kinds = [("react", "f"), ("codex", "f"), ("react", "other"), ("aider", "f")]
    assert [learned.limit_s(*kind) for kind in kinds] == [100.0, 140.0, MOST, MOST]


def test_only_the_latest_are_remembered() -> None:
    assert taught([Took(200.0, True)] * 1000 + [Took(50.0, True)] * LATEST) == 100.0


def test_the_kind_that_was_not_heard_of_for_the_longest_time_is_forgotten() -> None:
    learned = limits(sample=1)
    for number in [*range(KINDS), 0, KINDS]:
        learned.learn(f"f{number}", outcome(Took(50.0, True)))
    assert [learned.limit_s("react", f"f{number}") for number in (0, 1, 2, KINDS)] == [100.0, MOST, 100.0, 100.0]


@pytest.mark.parametrize(
    ("name", "metadata", "family"),
    [
        ("demo/count-17", {}, "demo/count"),
        ("django__django-12345", {}, "django__django"),
        ("v2/task_12-easy", {}, "v2/task-easy"),
        ("words", {}, "words"),
        ("12", {}, ""),
        ("demo/count-17", {"family": "sums"}, "sums"),
        ("demo/count-17", {"family": ""}, "demo/count"),
        ("demo/count-17", {"family": 3}, "demo/count"),
    ],
)
def test_a_family_is_what_the_task_says_else_its_name_without_the_last_number(
    name: str, metadata: dict[str, Any], family: str
) -> None:
    assert family_of(name, metadata) == family
