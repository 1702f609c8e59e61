"""The engine's HTTP connections, against a server that says exactly what a test wants."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from services.proxy.errors import Refused
from services.proxy.http import Connections
from tests.waiting import until

CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"
SIZED = b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world"
ENDLESS = b"HTTP/1.0 200 OK\r\n\r\nhello world"
Say = Callable[[asyncio.StreamWriter], Awaitable[None]]


class Server:
    """Answers every request with what `say` writes, and notes requests."""

    def __init__(self) -> None:
        self.say: Say = says(SIZED)
        self.requests: list[tuple[int, bytes]] = []
        self._count = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._count += 1
        number = self._count
        while head := await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b"":
            size = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
            self.requests.append((number, head + await reader.readexactly(size)))
            await self.say(writer)


def says(answer: bytes, *, cut: int = 10_000_000, then_close: bool = False) -> Say:
    async def say(writer: asyncio.StreamWriter) -> None:
        for at in range(0, len(answer), cut):
            writer.write(answer[at : at + cut])
            await writer.drain()
            await asyncio.sleep(0)
        if then_close:
            writer.close()

    return say


@pytest.fixture
async def server() -> AsyncIterator[tuple[Server, Connections]]:
    made = Server()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await made.serve(reader, writer)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    http = Connections(
        f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/base/", {}, connect_s=5.0, answer_s=5.0, keepalive_s=0.2
    )
    yield made, http
    http.close()
    listener.close()


async def ask(http: Connections, body: bytes = b"{}") -> bytes:
    answer = await http.ask("POST", "/v1/chat/completions", body)
    try:
        return await answer.read()
    finally:
        http.give_back(answer)


@pytest.mark.parametrize("cut", [1, 7, 1000])
@pytest.mark.parametrize(("answer", "then_close"), [(CHUNKED, False), (SIZED, False), (ENDLESS, True)])
async def test_the_body_comes_out_whole_however_it_is_framed_and_cut(
    server: tuple[Server, Connections], answer: bytes, then_close: bool, cut: int
) -> None:
    there, http = server
    there.say = says(answer, cut=cut, then_close=then_close)
    for _ in range(2):
        assert await ask(http, b'{"a":1}') == b"hello world"
    head, _, body = there.requests[0][1].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /base/v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:")
    assert body == b'{"a":1}'
    assert [number for number, _ in there.requests] == ([1, 2] if then_close else [1, 1])


async def test_requests_at_once_have_a_connection_each_and_leave_them_to_later_ones(server: tuple[Server, Connections]) -> None:
    there, http = server
    assert await asyncio.gather(*(ask(http) for _ in range(5))) == [b"hello world"] * 5
    await asyncio.gather(*(ask(http) for _ in range(5)))
    assert {number for number, _ in there.requests} == {1, 2, 3, 4, 5}


async def test_a_connection_that_idled_for_long_is_not_used_again(server: tuple[Server, Connections]) -> None:
    there, http = server
    await ask(http)
    await asyncio.sleep(0.3)
    await ask(http)
    assert [number for number, _ in there.requests] == [1, 2]


async def test_a_connection_whose_answer_was_not_read_to_its_end_is_dropped(server: tuple[Server, Connections]) -> None:
    there, http = server
    there.say = says(CHUNKED[:-5])
    answer = await http.ask("POST", "/", b"{}")
    assert (answer.status, await answer.next()) == (200, b"hello world")
    http.give_back(answer)
    there.say = says(SIZED)
    assert await ask(http) == b"hello world"
    assert [number for number, _ in there.requests] == [1, 2]


async def test_what_came_of_an_answer_that_nobody_read_is_not_in_the_next_one(server: tuple[Server, Connections]) -> None:
    there, http = server
    answer = await http.ask("POST", "/", b"{}")
    await until(lambda: answer.complete)
    http.give_back(answer)  # its reader left before it looked
    there.say = says(SIZED.replace(b"world", b"there"))
    assert await ask(http) == b"hello there"
    assert [number for number, _ in there.requests] == [1, 2]


async def test_what_is_said_unasked_is_no_answer(server: tuple[Server, Connections]) -> None:
    there, http = server
    there.say = says(SIZED + b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n", cut=len(SIZED))
    assert await ask(http) == b"hello world"
    await asyncio.sleep(0.05)
    assert await ask(http) == b"hello world"
    assert [number for number, _ in there.requests] == [1, 2]


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200", CHUNKED[:-1], SIZED[:-1], b"SSH-2.0-server\r\n\r\n"])
async def test_an_answer_that_breaks_off_is_an_error(server: tuple[Server, Connections], answer: bytes) -> None:
    there, http = server
    there.say = says(answer, then_close=True)
    with pytest.raises(Refused, match="broke") as refused:
        await ask(http)
    assert refused.value.status == 502


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(Refused, match="cannot be reached") as refused:
        await ask(Connections(url, {}, connect_s=5.0, answer_s=5.0, keepalive_s=2.0))
    assert refused.value.status == 503


async def test_a_server_that_is_faster_than_the_reader_is_held_back(server: tuple[Server, Connections]) -> None:
    there, http = server
    size, sent = 64 * 1024 * 1024, 0

    async def say(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size)
        while sent < size:
            writer.write(b"x" * 65536)
            await writer.drain()
            sent += 65536

    there.say = say
    answer = await http.ask("POST", "/", b"{}")
    await asyncio.sleep(0.2)
    assert sent < size / 2
    assert len(await answer.read()) == size
    http.give_back(answer)
