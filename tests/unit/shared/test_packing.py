"""Packed arrays: exact, little-endian, and the same bytes wherever they were made."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.packing import digest, digest_packed, pack_floats, pack_ids, pack_mask, unpack_floats, unpack_ids, unpack_mask

few = settings(max_examples=50, deadline=None)
ids = st.lists(st.integers(0, 2**32 - 1), max_size=20)


@few
@given(ids)
def test_ids_come_back(values: list[int]) -> None:
    assert unpack_ids(pack_ids(values)) == values


@few
@given(st.lists(st.floats(width=32, allow_nan=False), max_size=20))
def test_floats_of_32_bits_come_back(values: list[float]) -> None:
    assert unpack_floats(pack_floats(values)) == values


@few
@given(st.lists(st.integers(0, 1), max_size=20))
def test_masks_come_back(values: list[int]) -> None:
    assert unpack_mask(pack_mask(values)) == values


@few
@given(ids, ids)
def test_digests_are_equal_exactly_for_equal_ids(a: list[int], b: list[int]) -> None:
    assert (digest(a) == digest(b)) == (a == b)
    assert digest(a) == digest_packed(pack_ids(a))


def test_the_bytes_are_little_endian() -> None:
    assert pack_ids([1, 258]) == b"\x01\0\0\0\x02\x01\0\0"
    assert pack_floats([1.0]) == b"\0\0\x80\x3f"
    assert pack_mask([0, 1]) == b"\0\x01"


@pytest.mark.parametrize("value", [-1, 2**32])
def test_what_is_no_token_id_is_refused(value: int) -> None:
    with pytest.raises(OverflowError):
        pack_ids([value])


def test_a_torn_array_is_refused() -> None:
    with pytest.raises(ValueError, match="multiple"):
        unpack_ids(b"\0\0\0")
    with pytest.raises(ValueError, match="multiple"):
        unpack_floats(b"\0\0\0")
