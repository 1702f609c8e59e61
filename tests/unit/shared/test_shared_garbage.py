"""What is no message, or is one in the wrong place, is refused where it is read: of every type, with a reason."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.bus.delivery import read, replayed, tapped
from shared.errors import Rejected
from shared.events import MESSAGES, Message, encode, tag_of
from shared.subjects import subject_of
from tests.garbage import bad, sample

BAD = [
    pytest.param(kind, subject, body, id=f"{tag_of(kind)}: {fault}")
    for kind in MESSAGES
    for fault, (subject, body) in bad(kind, "run-1").items()
]


@pytest.mark.parametrize(("kind", "subject", "body"), BAD)
def test_what_is_bad_is_rejected(kind: type[Message], subject: str, body: bytes) -> None:
    with pytest.raises(Rejected):
        read(subject, body, [kind])
    assert replayed(subject, body, kind) is None
    tapped(subject, body)


@pytest.mark.parametrize("kind", MESSAGES, ids=tag_of)
def test_what_the_bad_was_made_from_is_good(kind: type[Message]) -> None:
    message = sample(kind, "run-1")
    assert read(subject_of(message), encode(message), [kind]) == message


@given(st.binary(max_size=60), st.sampled_from(MESSAGES), st.data())
def test_a_body_with_bytes_changed_is_read_or_rejected(noise: bytes, kind: type[Message], data: st.DataObject) -> None:
    message = sample(kind, "run-1")
    subject, body = subject_of(message), bytearray(encode(message))
    at = data.draw(st.integers(0, len(body)))
    body[at : at + data.draw(st.integers(0, 60))] = noise
    tapped(subject, bytes(body))
    with suppress(Rejected):
        assert isinstance(read(subject, bytes(body), [kind]), kind)
