"""Which messages of a stream may go."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st
from nats.js.api import ConsumerConfig, ConsumerInfo, SequenceInfo, StreamState

from shared.bus.trim import first_to_keep


def consumer(floor: int, pending: int) -> ConsumerInfo:
    return ConsumerInfo(
        name="c", stream_name="s", config=ConsumerConfig(), created=datetime.now(UTC),
        ack_floor=SequenceInfo(consumer_seq=0, stream_seq=floor), num_pending=pending, num_ack_pending=0,
    )  # fmt: skip


def state(first: int, last: int, used: int) -> StreamState:
    return StreamState(messages=last - first + 1, bytes=used, first_seq=first, last_seq=last, consumer_count=1)


def test_nothing_goes_while_there_is_room_or_nobody_to_have_read_it() -> None:
    assert first_to_keep(state(1, 100, 74), 100, [consumer(100, 0)]) is None
    assert first_to_keep(state(1, 100, 99), 100, []) is None
    assert first_to_keep(state(1, 100, 99), 100, [consumer(0, 100)]) is None


def test_half_goes_at_most_and_what_somebody_lacks_stays() -> None:
    assert first_to_keep(state(1, 100, 80), 100, [consumer(100, 0), consumer(7, 0)]) == 51
    assert first_to_keep(state(1, 100, 80), 100, [consumer(100, 0), consumer(20, 3)]) == 21


@given(st.integers(1, 50), st.integers(0, 50), st.lists(st.tuples(st.integers(0, 100), st.integers(0, 3)), max_size=4))
def test_no_message_goes_that_a_consumer_has_not_acknowledged(first: int, more: int, floors: list[tuple[int, int]]) -> None:
    keep = first_to_keep(state(first, first + more, 100), 100, [consumer(f, n) for f, n in floors])
    assert keep is None or first < keep <= first + more + 1
    assert keep is None or all(not waits or keep <= floor + 1 for floor, waits in floors)
