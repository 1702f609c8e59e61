"""The load and the bounds of the trainer's benchmark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from services.trainer.batch.samples import read_vote
from shared.events import GroupCompleted, decode
from tests.bench.trainer.groups import Shape, groups
from tests.bench.trainer.report import Phases, Push, Report, Round

SHAPE = Shape(groups=2, n=4, calls=3, news=5, reply=7)


def round_of(ours: float, bare: float, own: float = 0.0) -> Round:
    ours_by_phase = Phases(read=0.0, weigh=0.0, update=ours, verl=ours - own, cpu=ours / 2)
    return Round(ours_by_phase, {"infer_batch": bare / 4, "train_batch": bare * 3 / 4}, bare / 2)


def broken(*rounds: Round) -> set[str]:
    return {name for name, bound in Report(SHAPE, rounds).bounds().items() if not bound.holds}


def test_a_steps_groups_are_what_the_trainer_reads() -> None:
    messages = [decode(body) for body in groups(SHAPE, seed=1)]
    made = [message for message in messages if isinstance(message, GroupCompleted)]
    votes = [read_vote(t) for message in made for t in message.trajectories]
    assert [len(m.trajectories) for m in made] == [4, 4]
    assert sum(v.trained for v in votes) == SHAPE.trained == 2 * 4 * 3 * 7
    assert sum(len(s.ids) for v in votes for s in v.samples) == SHAPE.tokens
    assert {v.reward for v in votes} == {0.0, 1.0}


@pytest.mark.parametrize(
    ("rounds", "fails"),
    [
        ([round_of(1.1, 1.0)], set()),
        ([round_of(1.12, 1.0)], {"overhead_ratio"}),
        ([round_of(0.9, 0.9)], {"bare_step_s"}),
        ([round_of(9.0, 1.0), round_of(1.0, 9.0)], set()),
    ],
)
def test_bounds_are_of_the_fastest_round_of_each(rounds: list[Round], fails: set[str]) -> None:
    assert broken(*rounds) == fails


def test_the_report_has_the_fastest_push_and_tokens_by_the_second() -> None:
    pushes = [Push(bytes=10, export_s=0.5, load_s=0.5), Push(bytes=10, export_s=0.1, load_s=0.2)]
    found = json.loads(Report(SHAPE, [round_of(2.0, 2.0)], pushes).json())
    assert found["push_s"] == pytest.approx(0.3)
    assert found["push_bytes"] == 10
    assert found["tokens_per_s"] == SHAPE.tokens / 2
    assert found["step_s"]["bare_train_batch"] == 1.5
    assert "cpu" not in found["step_s"]


def test_cpu_seconds_are_those_of_the_rounds_with_the_fewest() -> None:
    found = json.loads(Report(SHAPE, [round_of(2.2, 8.0), round_of(9.0, 2.0)]).json())
    assert found["cpu_s"] == {"step": 1.1, "bare": 1.0, "ratio": 1.1}


def test_what_is_not_verls_is_that_of_the_step_that_had_least_of_it() -> None:
    found = json.loads(Report(SHAPE, [round_of(2.0, 2.0, own=0.25), round_of(9.0, 9.0, own=0.125)]).json())
    assert found["own_s"] == 0.125


@pytest.mark.real
@pytest.mark.slow
def test_transfers_of_every_size_are_measured_and_nothing_is_left(tmp_path: Path) -> None:
    from tests.bench.trainer.transfer import measure

    said: list[str] = []
    transfers = measure([80_000, 8_000], 1, tmp_path, said.append)
    assert [t.bytes for t in transfers] == [8_000, 80_000]
    assert all(t.push_s > 0 < t.copy_s for t in transfers)
    assert len(said) == 2
    assert list(tmp_path.iterdir()) == []
    found = json.loads(Report(SHAPE, [round_of(2.0, 2.0)], transfers=transfers).json())
    assert [t["bytes"] for t in found["transfers"]] == [8_000, 80_000]
