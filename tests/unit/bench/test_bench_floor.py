"""The floor of the gateway's benchmark knows where a message of HTTP ends."""

from __future__ import annotations

import pytest

from tests.bench.floor import message_size


@pytest.mark.parametrize(
    ("head", "size"),
    [
        (b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", 27),
        (b"POST / HTTP/1.1\r\nContent-Length: 5\r\nhost: x\r\n\r\n", 52),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", -1),
    ],
)
def test_a_message_ends_where_its_head_says(head: bytes, size: int) -> None:
    assert message_size(head) == size
