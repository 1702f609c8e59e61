"""The index of calls by prefix, against the definition: the longest earlier call that is a strict prefix of the prompt."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.lineage import Lineage, Parent
from shared.packing import pack_ids

ids = st.lists(st.integers(0, 1), max_size=5)


@settings(max_examples=100, deadline=None)
@given(st.lists(ids, max_size=8), ids, st.sampled_from([0, 14, 15, 16, 30, 253, 254, 255, 256, 270, 510, 511]))
def test_the_parent_is_the_longest_strict_prefix_and_the_latest_of_equals(
    short: list[list[int]], last: list[int], common: int
) -> None:
    calls, prompt = [[2] * common + ids for ids in short], [2] * common + last
    lineage = Lineage()
    for seq, full in enumerate(calls, start=1):
        lineage.add(seq, pack_ids(full))
    prefixes = [Parent(seq, len(full)) for seq, full in enumerate(calls, start=1) if full == prompt[: len(full)] != prompt]
    longest = max(prefixes, key=lambda p: (p.length, p.seq), default=None)
    assert lineage.parent(pack_ids(prompt)) == longest
    assert all(lineage.parent(memoryview(pack_ids(prompt)), known.seq) == longest for known in prefixes)


def test_the_order_in_which_calls_become_known_does_not_matter() -> None:
    lineage = Lineage()
    for seq in (3, 1, 2):
        lineage.add(seq, pack_ids([7, 8]))
    assert lineage.parent(pack_ids([7, 8, 9])) == Parent(3, 2)


def test_an_equal_prompt_is_no_extension() -> None:
    lineage = Lineage()
    lineage.add(1, pack_ids([7, 8]))
    assert lineage.parent(pack_ids([7, 8])) is None


def test_a_prefix_of_bytes_that_is_no_prefix_of_ids_is_none() -> None:
    lineage = Lineage()
    lineage.add(1, pack_ids([1]))
    assert lineage.parent(pack_ids([257, 3])) is None


def test_what_is_known_of_a_parent_need_not_be_looked_at_again() -> None:
    lineage, first = Lineage(), list(range(700))
    lineage.add(1, pack_ids(first))
    lineage.add(2, pack_ids([*first, 1, 2]), parent=1)
    lineage.add(3, pack_ids([*first, 1, 2, *first]), parent=2)
    assert lineage.parent(pack_ids([*first, 1, 2, 3])) == Parent(2, 702)
    assert lineage.parent(pack_ids([*first, 1, 2, *first, 9])) == Parent(3, 1402)
