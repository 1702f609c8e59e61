"""Which groups a step may learn from: how old they may be, and what is said of those that leave."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.trainer.batch.samples import Sample
from services.trainer.books.metrics import on_policy_gap, step_metrics
from services.trainer.groups.step import gathered, refusal, staleness
from services.trainer.journal.records import Closed, Planned
from services.trainer.journal.state import Batch, Group, Left, RunState
from services.trainer.ports import Update
from shared.errors import FidelityError
from shared.events import TokenCounts, Trajectory
from tests.unit.trainer.twins import trajectory

versions = st.lists(st.integers(0, 9), min_size=1, max_size=5)


def group(name: str, *seen: int, trained: int = 8, refused: str = "", doomed: str = "") -> Group:
    """A closed group, a rollout for each weight version that was seen."""
    tokens = TokenCounts(sampled=trained + 5, trained=trained, masked=3, dropped=2, reasons={"aux": 3, "EngineError": 2})
    plan = Planned(name=name, task="/t", size=len(seen), purpose="train", seed=name)
    trajectories = [trajectory(f"r{i}", float(i), v) for i, v in enumerate(seen)]
    closed = Closed(name=name, trajectories=trajectories, tokens=tokens, outcomes={"finished": len(seen)}, refused=refused)
    return Group(plan=plan, closed=closed, doomed=doomed)


def seen_by(*versions: int) -> list[Trajectory]:
    return [trajectory(f"r{i}", float(i), v) for i, v in enumerate(versions)]


@given(versions, st.integers(0, 5))
def test_a_group_is_as_stale_as_its_oldest_call(seen: list[int], later: int) -> None:
    assert staleness(seen_by(*seen), max(seen) + later) == max(seen) + later - min(seen)


@given(versions, st.integers(1, 5))
def test_calls_of_weights_that_were_never_trained_are_an_error(seen: list[int], earlier: int) -> None:
    with pytest.raises(FidelityError, match=f"weight version {max(seen)}, but {max(seen) - earlier} is the newest"):
        staleness(seen_by(*seen), max(seen) - earlier)


def test_a_rollout_without_calls_is_of_no_version() -> None:
    silent = msgspec.structs.replace(trajectory("r", 0.0, 0), calls=0, rows=[])
    assert staleness([silent, trajectory("r", 1.0, 7)], 7) == staleness([silent], 7) == 0


@given(versions, st.integers(0, 4))
def test_a_group_is_refused_as_a_whole_once_it_is_too_old(seen: list[int], bound: int) -> None:
    assert refusal(group("g", *seen), 9, bound) == ("stale" if 9 - min(seen) > bound else "")


def test_a_group_says_why_it_cannot_be_trained_on() -> None:
    assert refusal(group("g", 3, refused="no_variance"), 3, 0) == "no_variance"
    assert refusal(group("g", 3, doomed="stale"), 3, 0) == "stale"
    assert refusal(group("g", 4), 3, 0) == "FidelityError"
    cut_off = group("g", 3, refused="too_few")
    assert cut_off.closed is not None
    cut_off.closed.outcomes["Cancelled"] = 1
    assert refusal(cut_off, 3, 0) == "interrupted"


def test_metrics_tell_of_every_reason() -> None:
    left = [Left(group=group("c", 0, 2), reason="stale"), Left(group=group("d", trained=0), reason="no_variance")]
    groups = {"a": group("a", 2, 2), "b": group("b", 2, 1)}
    made = gathered(RunState(groups=groups, begun=Batch(groups=["a", "b"], started=4, left=left)))
    samples = [s for votes in made.groups for v in votes for s in v.samples]
    metrics = step_metrics(1, 2, made, samples, Update({}, [0.0, 1e-6, 2e-6, 0.5]), {})
    assert {name: metrics[f"groups_discarded/{name}"] for name in ("stale", "no_variance")} == {"stale": 1, "no_variance": 1}
    reasons = {"aux": 12, "EngineError": 8, "stale": 8}
    assert {name.partition("/")[2]: n for name, n in metrics.items() if name.startswith("tokens_untrained/")} == reasons
    assert (metrics["tokens_trained"], metrics["tokens_masked"], metrics["tokens_dropped"]) == (16, 12, 16)
    assert (metrics["staleness/max"], metrics["staleness/mean"], metrics["logprob_gap/max"]) == (1, 0.25, 2e-6)
    assert (metrics["groups_started"], metrics["groups_completed"]) == (4, 2)


def test_old_weights_say_nothing_about_the_gap() -> None:
    samples = [Sample([1, 2], 1, [1], [-1.0], version=v) for v in (3, 4, 4)]
    assert on_policy_gap(samples, Update({}, [0.5, 1e-6, 3e-6]), 4) == 3e-6
    assert on_policy_gap(samples[:1], Update({}, [0.5]), 4) is None
    made = gathered(RunState(groups={"a": group("a", 3)}, begun=Batch(groups=["a"])))
    assert "logprob_gap/max" not in step_metrics(1, 4, made, samples[:1], Update({}, [0.5]), {})
