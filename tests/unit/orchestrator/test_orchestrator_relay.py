"""The relay, with real sockets: what goes in comes out, however slow one side is, and ends pass."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.orchestrator.runner import relay as relay_module
from services.orchestrator.runner.loop import Loop
from services.orchestrator.runner.relay import Relay, address_of, dial


class Stage:
    """A relay between clients and a server that the test plays, in one loop that the test turns."""

    def __init__(self) -> None:
        self.server = socket.create_server(("127.0.0.1", 0))
        self.server.setblocking(False)
        listener = socket.create_server(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        self.loop = Loop()
        self.relay = Relay(self.loop, listener, f"tcp:127.0.0.1:{self.server.getsockname()[1]}")

    def turn(self, done: Callable[[], bool], within_s: float = 5.0) -> None:
        until = time.monotonic() + within_s
        while not done():
            assert time.monotonic() < until, "it did not come to pass"
            self.loop.turn(0.01)

    def connect(self) -> tuple[socket.socket, socket.socket]:
        """A client's connection, and the server's end of it."""
        client = socket.create_connection(("127.0.0.1", self.port))
        client.setblocking(False)
        accepted: list[socket.socket] = []
        self.turn(lambda: bool(accepted) or self._accept(accepted))
        return client, accepted[0]

    def _accept(self, accepted: list[socket.socket]) -> bool:
        try:
            sock = self.server.accept()[0]
        except BlockingIOError:
            return False
        sock.setblocking(False)
        accepted.append(sock)
        return True

    def receive(self, sock: socket.socket, size: int) -> bytes:
        got = bytearray()

        def more() -> bool:
            with suppress(BlockingIOError):
                got.extend(sock.recv(65536))
            return len(got) >= size

        self.turn(more)
        return bytes(got)

    def ended(self, sock: socket.socket) -> bool:
        try:
            return sock.recv(1) == b""
        except BlockingIOError:
            return False
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self.relay.close()
        self.server.close()


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.close()


def test_what_one_side_says_the_other_hears(stage: Stage) -> None:
    client, server = stage.connect()
    with client, server:
        client.send(b"hello")
        assert stage.receive(server, 5) == b"hello"
        server.send(b"and back")
        assert stage.receive(client, 8) == b"and back"


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, 200_000), min_size=1, max_size=6), st.integers(0, 2**32))
def test_all_bytes_arrive_in_order_however_slowly_they_are_read(sizes: list[int], seed: int) -> None:
    stage, chance = Stage(), random.Random(seed)
    client, server = stage.connect()
    with client, server:
        sent = b"".join(chance.randbytes(size) for size in sizes)
        left, got = memoryview(sent), bytearray()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
        while len(got) < len(sent):
            if left:
                with suppress(BlockingIOError):
                    left = left[client.send(left) :]
            stage.loop.turn(0.0)
            if chance.random() < 0.5:
                with suppress(BlockingIOError):
                    got += server.recv(chance.randint(1, 60_000))
        assert bytes(got) == sent
    stage.close()


def test_a_side_that_does_not_read_stops_the_other_from_being_read(stage: Stage) -> None:
    client, server = stage.connect()
    with client, server:
        sent, stuck_since = 0, time.monotonic()
        while time.monotonic() - stuck_since < 0.3:
            with suppress(BlockingIOError):
                sent += client.send(b"x" * 65536)
                stuck_since = time.monotonic()
            stage.loop.turn(0.001)
            assert sent < 100_000_000
        assert len(stage.receive(server, sent)) == sent


def test_the_end_of_one_direction_passes_and_the_other_goes_on(stage: Stage) -> None:
    client, server = stage.connect()
    with client, server:
        client.send(b"question")
        client.shutdown(socket.SHUT_WR)
        assert stage.receive(server, 8) == b"question"
        stage.turn(lambda: stage.ended(server))
        server.send(b"answer")
        assert stage.receive(client, 6) == b"answer"
        server.close()
        stage.turn(lambda: stage.ended(client))


def test_a_client_that_is_gone_is_gone_for_the_server(stage: Stage) -> None:
    client, server = stage.connect()
    with server:
        client.close()
        stage.turn(lambda: stage.ended(server))


def test_a_proxy_that_is_away_breaks_the_connection_off_and_the_next_one_may_succeed(stage: Stage) -> None:
    address = stage.server.getsockname()
    stage.server.close()
    with socket.create_connection(("127.0.0.1", stage.port)) as client:
        client.setblocking(False)
        stage.turn(lambda: stage.ended(client))
    stage.server = socket.create_server(address)
    stage.server.setblocking(False)
    client, server = stage.connect()
    with client, server:
        client.send(b"again")
        assert stage.receive(server, 5) == b"again"


def test_more_connections_than_are_allowed_wait_for_their_turn(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "MOST", 2)
    first, second = stage.connect(), stage.connect()
    third = socket.create_connection(("127.0.0.1", stage.port))
    stage.loop.turn(0.05)
    with pytest.raises(BlockingIOError):
        stage.server.accept()
    for sock in first:
        sock.close()
    accepted: list[socket.socket] = []
    stage.turn(lambda: stage._accept(accepted))
    for sock in (*second, third, *accepted):
        sock.close()


def test_who_waits_for_an_answer_is_known(stage: Stage) -> None:
    client, server = stage.connect()
    with client, server:
        assert stage.relay.asked == 0
        before = stage.relay.moved
        client.send(b"question")
        stage.receive(server, 8)
        assert stage.relay.asked == 1
        server.send(b"answer")
        stage.receive(client, 6)
        assert (stage.relay.asked, stage.relay.moved > before) == (0, True)
        client.send(b"another question")
        stage.receive(server, 16)
        client.close()
        stage.turn(lambda: stage.ended(server))
        server.close()
        stage.turn(lambda: stage.relay.asked == 0)


def test_nothing_is_done_while_nothing_happens(stage: Stage) -> None:
    first, second = stage.connect()
    with first, second:
        before = time.process_time()
        stage.loop.turn(0.5)
        assert time.process_time() - before < 0.1


def test_of_the_sockets_in_a_folder_any_that_lives_is_taken(tmp_path: Path) -> None:
    target = address_of(f"unix:{tmp_path}")
    with pytest.raises(OSError, match="no proxy has a socket"):
        dial(*target)
    living = {name: unix_server(tmp_path / name) for name in ("a.sock", "b.sock")}
    unix_server(tmp_path / "dead.sock").close()
    (tmp_path / "note").touch()
    kept = [dial(*target) for _ in range(40)]
    taken = {name: accepted(server) for name, server in living.items()}
    assert sum(taken.values()) == len(kept)
    assert min(taken.values()) > 0
    for sock in (*kept, *living.values()):
        sock.close()
    with pytest.raises(ConnectionRefusedError):
        dial(*target)


def unix_server(path: Path) -> socket.socket:
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen(100)
    server.setblocking(False)
    return server


def accepted(server: socket.socket) -> int:
    count = 0
    with suppress(BlockingIOError):
        while True:
            server.accept()[0].close()
            count += 1
    return count
