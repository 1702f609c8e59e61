"""How far rollouts may run ahead: decisions, and whole schedules drawn at random."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.trainer.groups.pace import Standing, batch, stale_after, to_start
from shared.config import PaceConfig, TrainerConfig
from shared.config.base import Tree


def config(mode: str = "sync", bound: int = 0, **other: object) -> TrainerConfig:
    tree: Tree = {"pace": {"mode": mode, "max_staleness": bound}, "groups": 3, "steps": 5, **other}
    return msgspec.convert(tree, TrainerConfig)


def standing(done: int = 0, open_: int = 0, ready: int = 0, training: int = 0, started: int = 0, dropped: int = 0) -> Standing:
    return Standing(done, [(f"o{i}", 0) for i in range(open_)], [f"r{i}" for i in range(ready)], training, started, dropped)


def test_asynchronous_pace_needs_a_bound() -> None:
    with pytest.raises(msgspec.ValidationError, match="max_staleness: it is 0"):
        msgspec.convert({"mode": "async"}, PaceConfig)


def test_a_synchronous_step_starts_its_groups_and_waits_for_all_of_them() -> None:
    assert to_start(standing(), config()) == 3
    assert batch(standing(open_=1, ready=2, started=3), config()) is None
    assert batch(standing(ready=3, started=3), config()) == ["r0", "r1", "r2"]


def test_dropped_groups_are_replaced_up_to_the_limit() -> None:
    assert to_start(standing(ready=1, started=3, dropped=2), config()) == 2
    assert to_start(standing(ready=1, started=5, dropped=4), config()) == 0  # 1.5 times 3 groups
    assert batch(standing(ready=1, started=5, dropped=4), config()) == ["r0"]
    assert batch(standing(started=5, dropped=5), config()) == []


def test_with_bound_0_nothing_starts_before_the_push_and_with_1_the_next_step_does() -> None:
    assert to_start(standing(training=3), config()) == 0
    assert to_start(standing(training=3), config(bound=1)) == 3
    assert to_start(standing(done=4, training=3), config(bound=1)) == 0  # the last step is being trained on


def test_asynchronous_groups_are_under_way_up_to_the_bound_and_none_beyond_the_last_step() -> None:
    assert to_start(standing(), config("async", 2)) == 9
    assert to_start(standing(open_=4, ready=1, training=3), config("async", 2)) == 1
    assert to_start(standing(done=4), config("async", 2)) == 3


def test_an_asynchronous_step_takes_those_that_closed_first() -> None:
    assert batch(standing(open_=4, ready=2), config("async", 2)) is None
    assert batch(standing(open_=4, ready=5), config("async", 2)) == ["r0", "r1", "r2"]


def test_groups_that_will_be_too_old_are_known_before_the_push() -> None:
    view = Standing(3, [("old", 1), ("new", 3)], [], 3, 0, 0)
    assert stale_after(view, 4, config("async", 2)) == ["old"]
    assert stale_after(view, 3, config("async", 2)) == []


PACES = [("sync", 0), ("sync", 1), ("async", 1), ("async", 2), ("async", 4)]


@dataclass
class Schedule:
    """A run whose groups close, and are dropped, by chance.

    Attributes:
        open: groups that were started, with the version of then.
        closed: those that closed.
        trained: per step, the versions by which its groups lagged.
    """

    config: TrainerConfig
    chance: random.Random
    version: int = 0
    done: int = 0
    started: int = 0
    dropped: int = 0
    count: int = 0
    busiest: int = 0
    open: dict[str, int] = field(default_factory=dict)
    ready: dict[str, int] = field(default_factory=dict)
    training: dict[str, int] = field(default_factory=dict)
    ends: dict[str, str] = field(default_factory=dict)
    trained: list[list[int]] = field(default_factory=list)

    @property
    def standing(self) -> Standing:
        return Standing(self.done, list(self.open.items()), list(self.ready), len(self.training), self.started, self.dropped)

    def refill(self) -> None:
        for name, born in list(self.ready.items()):
            if self.version - born > self.config.pace.max_staleness:
                self.drop(name, "stale")
        for _ in range(to_start(self.standing, self.config)):
            self.open[f"g{self.count:04}"] = self.version
            self.count += 1
            self.started += 1
        self.busiest = max(self.busiest, len(self.open) + len(self.ready) + len(self.training))

    def drop(self, name: str, why: str) -> None:
        del self.ready[name]
        self.dropped += 1
        self.ends[name] = why

    def close_one(self) -> None:
        name = self.chance.choice(list(self.open))
        self.ready[name] = self.open.pop(name)
        if self.chance.random() < 0.3:
            self.drop(name, "no_variance")

    def learn(self, names: list[str]) -> None:
        self.training = {name: self.ready.pop(name) for name in names}
        self.started = self.dropped = 0
        self.trained.append([self.version - born for born in self.training.values()])
        for _ in range(self.chance.randrange(4)):
            if self.config.pace.max_staleness and self.training:
                self.refill()
            if self.open:
                self.close_one()
        self.ends |= dict.fromkeys(self.training, "trained")
        self.version += bool(self.training)
        self.training = {}
        self.done += 1

    def run(self) -> None:
        while self.done < self.config.steps:
            self.refill()
            if (names := batch(self.standing, self.config)) is not None:
                self.learn(names)
            else:
                self.close_one()


@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from([("sync", 0), ("sync", 1), ("async", 1), ("async", 2), ("async", 4)]),
    st.integers(1, 4),
)
def test_no_schedule_trains_past_the_bound_or_has_more_under_way_than_allowed(
    seed: int, pace: tuple[str, int], groups: int
) -> None:
    mode, bound = pace
    schedule = Schedule(config(mode, bound, groups=groups), random.Random(seed))
    schedule.run()
    assert max((lag for lags in schedule.trained for lag in lags), default=0) <= bound
    assert all(len(lags) <= groups for lags in schedule.trained)
    assert schedule.busiest <= (bound + 1) * groups
    assert len(schedule.trained) == 5
    left = {*schedule.open, *schedule.ready}
    assert {f"g{i:04}" for i in range(schedule.count)} == {*schedule.ends} | left  # none is lost
    assert not left or mode == "async"


@given(st.integers(1, 3))
def test_groups_that_are_never_dropped_are_all_trained_on(bound: int) -> None:
    class Fair(Schedule):
        def close_one(self) -> None:
            name = next(iter(self.open))
            self.ready[name] = self.open.pop(name)

    schedule = Fair(config("async", bound), random.Random(0))
    schedule.run()
    assert [len(lags) for lags in schedule.trained] == [3] * 5
    assert schedule.count == 15
    assert not schedule.open
