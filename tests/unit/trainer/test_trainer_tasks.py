"""Every task has its turn, in an order that the seed decides."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.trainer.tasks import TaskOrder, eval_plan, find_tasks, sampling_seed
from shared.errors import ConfigError
from tests.unit.trainer.twins import make_tasks

paths = [Path(f"/t/{i}") for i in range(7)]


@given(st.integers(0, 5), st.integers(0, 3))
def test_each_epoch_has_every_task_once(seed: int, epoch: int) -> None:
    order = TaskOrder(paths, seed)
    assert sorted(order.at(epoch * 7 + i) for i in range(7)) == paths


def test_the_order_depends_on_seed_and_epoch() -> None:
    orders = {tuple(TaskOrder(paths, seed).at(7 * epoch + i) for i in range(7)) for seed in range(3) for epoch in range(3)}
    assert len(orders) == 9


@given(st.integers(1, 40), st.integers(0, 100))
def test_episodes_are_spread_evenly_and_sum_up(tasks: int, episodes: int) -> None:
    sizes = [size for _, size in eval_plan([Path(str(i)) for i in range(tasks)], episodes)]
    assert sum(sizes) == episodes
    assert len(sizes) == min(tasks, episodes)
    assert max(sizes, default=1) - min(sizes, default=1) <= 1


def test_only_folders_with_a_task_file_are_tasks(tmp_path: Path) -> None:
    make_tasks(tmp_path / "set", 2)
    (tmp_path / "set" / "notes").mkdir()
    assert [t.name for t in find_tasks(str(tmp_path / "set"), "tasks.train")] == ["t00", "t01"]


def test_a_task_set_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tasks\.train is not set"):
        find_tasks("", "tasks.train")
    with pytest.raises(ConfigError, match=r"tasks\.heldout: no \*/task\.toml"):
        find_tasks(str(tmp_path), "tasks.heldout")


@given(st.integers(), st.integers())
def test_seeds_fit_in_31_bits_and_differ(a: int, b: int) -> None:
    assert 0 <= sampling_seed(a, b) < 2**31
    assert (sampling_seed(a, "x") == sampling_seed(b, "x")) == (a == b)
