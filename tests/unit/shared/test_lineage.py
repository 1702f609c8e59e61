"""The index of calls by prefix, against the definition: the longest earlier call that is a strict prefix of the prompt."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.lineage import Lineage, Parent
from shared.packing import pack_ids

ids = st.lists(st.integers(0, 1), max_size=5)


@settings(max_examples=100, deadline=None)
@given(st.lists(ids, max_size=8), ids)
def test_the_parent_is_the_longest_strict_prefix_and_the_latest_of_equals(calls: list[list[int]], prompt: list[int]) -> None:
    lineage = Lineage()
    for seq, full in enumerate(calls, start=1):
        lineage.add(seq, pack_ids(full))
    prefixes = [Parent(seq, len(full)) for seq, full in enumerate(calls, start=1) if full == prompt[: len(full)] != prompt]
    assert lineage.parent(pack_ids(prompt)) == max(prefixes, key=lambda p: (p.length, p.seq), default=None)


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
