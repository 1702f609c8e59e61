from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.bus.delivery import PAYLOAD_MARGIN, Consumer, Outcome, check_size, tapped
from shared.errors import Rejected
from shared.events import Message, WeightsLoaded, encode
from shared.subjects import subject_of

MESSAGE = WeightsLoaded(run_id="r", version=1)
SUBJECT = subject_of(MESSAGE)


async def accept(message: Message) -> None:
    """Does nothing."""


async def refuse(message: Message) -> None:
    raise OSError("disk")


def consumer(handler: object = accept, max_deliver: int = 6) -> Consumer:
    return Consumer("watch", [WeightsLoaded], handler, max_deliver, retry_s=0.2)  # type: ignore[arg-type]


async def test_a_handled_message_is_handled() -> None:
    assert await consumer().deliver(SUBJECT, encode(MESSAGE), 1) == Outcome("handled")


@given(st.binary(max_size=40) | st.text(max_size=40).map(str.encode))
async def test_bytes_that_are_no_message_are_dead_and_never_an_error(data: bytes) -> None:
    outcome = await consumer().deliver(SUBJECT, data, 1)
    assert outcome.kind == "dead"
    assert "\n" not in outcome.reason
    assert tapped("s", data).message is None


async def test_delays_grow_until_the_last_delivery_which_ends_dead() -> None:
    outcomes = [await consumer(refuse).deliver(SUBJECT, encode(MESSAGE), n) for n in range(1, 7)]
    assert [o.delay_s for o in outcomes[:-1]] == pytest.approx([0.2, 0.8, 3.2, 12.8, 30.0])
    assert {o.kind for o in outcomes[:-1]} == {"later"}
    assert outcomes[-1] == Outcome("dead", reason="OSError: disk")


async def test_what_was_delivered_too_often_is_not_tried_again() -> None:
    assert (await consumer(max_deliver=2).deliver(SUBJECT, encode(MESSAGE), 3)).reason == "no answer to 2 deliveries"


def test_the_largest_body_leaves_room_for_headers() -> None:
    check_size("s", b"x" * 1000, PAYLOAD_MARGIN + 1000)
    with pytest.raises(Rejected, match=r"s: 1001 bytes are more than the bus takes \(1000"):
        check_size("s", b"x" * 1001, PAYLOAD_MARGIN + 1000)
