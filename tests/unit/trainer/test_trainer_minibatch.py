"""Optimizer steps of whole groups, about equally many in each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from services.trainer.batch.minibatch import mini_batches

batches = st.lists(st.integers(1, 4), min_size=1, max_size=12).map(
    lambda sizes: [g for g, n in enumerate(sizes) for _ in range(n)]
)


@given(batches, st.integers(0, 5))
def test_every_row_is_in_one_step_and_no_group_is_split(groups: list[int], size: int) -> None:
    steps = mini_batches(groups, size)
    assert sorted(place for step in steps for place in step) == list(range(len(groups)))
    held = [{groups[place] for place in step} for step in steps]
    assert sum(len(names) for names in held) == len(set(groups))


@given(batches, st.integers(1, 5))
def test_steps_have_at_most_so_many_groups_and_differ_by_one_at_most(groups: list[int], size: int) -> None:
    counts = [len({groups[place] for place in step}) for step in mini_batches(groups, size)]
    assert max(counts) <= size
    assert max(counts) - min(counts) <= 1
    assert len(counts) == -(-len(set(groups)) // size)


def test_without_a_size_all_groups_are_one_step() -> None:
    assert mini_batches([7, 7, 3], 0) == [[0, 1, 2]]
