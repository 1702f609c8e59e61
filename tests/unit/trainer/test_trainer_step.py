"""Which groups a step may learn from: how old they may be, and what is said of those that leave."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.trainer.desk import GroupPlan, GroupResult
from services.trainer.ledger import Ledger
from services.trainer.metrics import on_policy_gap, step_metrics
from services.trainer.ports import Update
from services.trainer.samples import Sample, read_vote
from services.trainer.step import Gathered, cut, staleness
from shared.config import TrainerConfig
from shared.errors import FidelityError
from shared.events import TokenCounts
from tests.unit.trainer.twins import trajectory

versions = st.lists(st.integers(0, 9), min_size=1, max_size=5)


def group(name: str, *seen: int, trained: int = 8) -> GroupResult:
    """A closed group, a rollout for each weight version that was seen."""
    tokens = TokenCounts(sampled=trained + 5, trained=trained, masked=3, dropped=2, reasons={"aux": 3, "EngineError": 2})
    plan = GroupPlan(name, Path("/t"), len(seen), "train", name)
    return GroupResult(plan, [trajectory(f"r{i}", float(i), v) for i, v in enumerate(seen)], tokens, {"finished": len(seen)})


def kept(*results: GroupResult) -> Gathered:
    return Gathered(kept=[(r, [read_vote(t) for t in r.trajectories]) for r in results], started=len(results))


@given(versions, st.integers(0, 5))
def test_a_group_is_as_stale_as_its_oldest_call(seen: list[int], later: int) -> None:
    assert staleness(group("g", *seen).trajectories, max(seen) + later) == max(seen) + later - min(seen)


@given(versions, st.integers(1, 5))
def test_calls_of_weights_that_were_never_trained_are_an_error(seen: list[int], earlier: int) -> None:
    with pytest.raises(FidelityError, match=f"weight version {max(seen)}, but {max(seen) - earlier} is the newest"):
        staleness(group("g", *seen).trajectories, max(seen) - earlier)


def test_a_rollout_without_calls_is_of_no_version() -> None:
    silent = msgspec.structs.replace(trajectory("r", 0.0, 0), calls=0, rows=[])
    assert staleness([silent, trajectory("r", 1.0, 7)], 7) == staleness([silent], 7) == 0


@given(st.lists(versions, min_size=1, max_size=4), st.integers(0, 4))
def test_a_batch_leaves_out_whole_groups_that_are_too_old_by_now(seen: list[list[int]], bound: int) -> None:
    gathered, ledger = kept(*(group(f"g{i}", *vs) for i, vs in enumerate(seen))), Ledger()
    votes = cut(gathered, ledger, TrainerConfig(max_staleness=bound), 9)
    fresh = [vs for vs in seen if 9 - min(vs) <= bound]
    assert [[v.samples[0].version for v in vs] for vs in votes] == fresh
    assert [reason for _, reason in gathered.dropped] == ["stale"] * (len(seen) - len(fresh))
    assert ledger.reasons["stale"] == 8 * (len(seen) - len(fresh))


def test_metrics_tell_of_every_reason() -> None:
    gathered = kept(group("a", 2, 2), group("b", 2, 1), group("c", 0, 2))
    config = TrainerConfig(max_staleness=1)
    samples = [s for votes in cut(gathered, Ledger(), config, 2) for v in votes for s in v.samples]
    gathered.dropped.append((group("d", trained=0), "no_variance"))
    metrics = step_metrics(1, 2, gathered, samples, Update({}, [0.0, 1e-6, 2e-6, 0.5]), {})
    assert {name: metrics[f"groups_discarded/{name}"] for name in ("stale", "no_variance")} == {"stale": 1, "no_variance": 1}
    reasons = {"aux": 12, "EngineError": 8, "stale": 8}
    assert {name.partition("/")[2]: n for name, n in metrics.items() if name.startswith("tokens_untrained/")} == reasons
    assert (metrics["tokens_trained"], metrics["tokens_masked"], metrics["tokens_dropped"]) == (16, 12, 16)
    assert (metrics["staleness/max"], metrics["staleness/mean"], metrics["logprob_gap/max"]) == (1, 0.25, 2e-6)


def test_old_weights_say_nothing_about_the_gap() -> None:
    samples = [Sample([1, 2], 1, [1], [-1.0], version=v) for v in (3, 4, 4)]
    assert on_policy_gap(samples, Update({}, [0.5, 1e-6, 3e-6]), 4) == 3e-6
    assert on_policy_gap(samples[:1], Update({}, [0.5]), 4) is None
    gathered = kept(group("a", 3))
    assert "logprob_gap/max" not in step_metrics(1, 4, gathered, samples[:1], Update({}, [0.5]), {})
