"""Every task has its turn, in an order that the seed decides."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.trainer.groups.tasks import TaskOrder, eval_plan, find_tasks, sampling_seed
from shared.errors import ConfigError, ForgeError
from tests.unit.trainer.twins import make_tasks

paths = [Path(f"/t/{i}") for i in range(7)]


def epochs(order: TaskOrder, count: int) -> list[list[Path]]:
    return [[order.next() for _ in paths] for _ in range(count)]


@given(st.integers(0, 5))
def test_each_epoch_has_every_task_once(seed: int) -> None:
    assert all(sorted(epoch) == paths for epoch in epochs(TaskOrder(paths, seed), 4))


def test_the_order_depends_on_seed_and_epoch() -> None:
    assert len({tuple(epoch) for seed in range(3) for epoch in epochs(TaskOrder(paths, seed), 3)}) == 9
    assert epochs(TaskOrder(paths, 1), 3) == epochs(TaskOrder(paths, 1), 3)


@given(st.lists(st.tuples(st.sampled_from(paths), st.integers(0, 2)), max_size=12), st.integers(1, 4))
def test_a_task_is_left_out_once_its_verifier_has_failed_so_often(failures: list[tuple[Path, int]], limit: int) -> None:
    sums = {task: sum(n for t, n in failures if t == task) for task in paths}
    order, plain = TaskOrder(paths, 0, limit, failures={str(t): n for t, n in sums.items()}), TaskOrder(paths, 0)
    out = {task for task, n in sums.items() if n >= limit}
    assert order.quarantined == {task.name: sums[task] for task in out}
    if out == set(paths):
        return
    left = [task for epoch in epochs(plain, 3) for task in epoch if task not in out]
    assert [order.next() for _ in left] == left


@given(st.integers(0, 30))
def test_an_order_goes_on_from_a_position(count: int) -> None:
    order = TaskOrder(paths, 0)
    for _ in range(count):
        order.next()
    other = TaskOrder(paths, 0, position=order.position)
    assert [other.next() for _ in range(9)] == [order.next() for _ in range(9)]


def test_a_run_has_no_task_left_when_all_verifiers_fail() -> None:
    order = TaskOrder(paths, 0, 1, failures={str(task): 1 for task in paths})
    with pytest.raises(ForgeError, match="the verifiers of all 7 training tasks failed 1 times or more"):
        order.next()


def test_tasks_stay_in_when_nobody_asks_for_quarantine() -> None:
    order = TaskOrder(paths, 0, quarantine_after=0, failures={str(paths[0]): 100})
    assert order.quarantined == {}
    assert sorted(order.next() for _ in paths) == paths


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
