"""What was worked out of a long text is not worked out again, and never taken for another's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.proxy.seen import Seen


def text(middle: str) -> bytes:
    """A long text, with ends like those of all others."""
    return b"a" * 1000 + middle.encode() + b"z" * 1000


@given(
    st.lists(st.sampled_from([text(m) for m in ("", "b", "c", "bc", "cb")] + [b"", b"short"]), max_size=30),
    st.sampled_from([1, 2001, 4010, 9999]),
)
def test_every_result_is_that_of_its_own_text(texts: list[bytes], most: int) -> None:
    seen = Seen(bytes.hex, most)
    assert [seen(one) for one in texts] == [one.hex() for one in texts]


def test_a_text_that_comes_again_is_not_worked_on_again() -> None:
    worked: list[bytes] = []
    seen = Seen(worked.append, 4010)  # two of them
    for middle in ("b", "b", "cc", "b", "ddd", "b", "cc"):
        seen(text(middle))
    assert worked == [text("b"), text("cc"), text("ddd"), text("cc")]  # the one that was not used for the longest time went


def test_work_that_fails_is_done_again() -> None:
    tries: list[bytes] = []

    def work(one: bytes) -> int:
        tries.append(one)
        if len(tries) == 1:
            raise ValueError("not now")
        return len(tries)

    seen = Seen(work, 4010)
    with pytest.raises(ValueError, match="not now"):
        seen(text("b"))
    assert (seen(text("b")), seen(text("b"))) == (2, 2)
