"""Publishing over a wire, against a server that says exactly what a test wants."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import nats.errors
import pytest
from nats.js.errors import APIError, NoStreamResponseError

from shared.bus.acks import Acks
from shared.bus.nkey import new_seed, nkey_of
from shared.bus.refusals import Refused

INFO = b'INFO {"server_id":"x","tls_required":false,"nonce":"b25jZQ","max_payload":1048576}\r\n'
ACK = b'{"stream":"CALLS","seq":1}'
SEED = new_seed()
REFUSAL = b'{"error":{"code":400,"description":"no such thing"}}'


@dataclass
class Server:
    """Greets, answers a CONNECT, and every published message with `answer`, where `@` stands for the inbox.

    Attributes:
        published: (subject, headers and body) of all messages.
        cut: answers are written in pieces of so many bytes.
    """

    answer: bytes = b"MSG @ 1 %d\r\n%b\r\n" % (len(ACK), ACK)
    welcome: bytes = b"PONG\r\n"
    cut: int = 10_000
    said: list[bytes] = field(default_factory=list)
    published: list[tuple[bytes, bytes]] = field(default_factory=list)
    connections: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        writer.write(INFO)
        try:
            while line := (await reader.readline()).strip():
                await self._take(line, reader, writer)
        except OSError:
            pass
        finally:
            writer.close()

    async def _take(self, line: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        match line.split():
            case [b"PING"]:
                writer.write(self.welcome)
            case [b"HPUB", subject, inbox, _, size]:
                self.published.append((subject, (await reader.readexactly(int(size) + 2))[:-2]))
                answer = self.answer.replace(b"@", inbox)
                for at in range(0, len(answer), self.cut):
                    writer.write(answer[at : at + self.cut])
                    await writer.drain()
                    await asyncio.sleep(0)
            case _:
                self.said.append(line)


@dataclass
class World:
    """A server and what publishes to it."""

    server: Server
    acks: Acks
    troubles: list[str]

    async def publish(self, data: bytes = b"body", **headers: str) -> None:
        await self.acks.publish("forge.v1.x", data, headers)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    server, troubles = Server(), list[str]()
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    url, context = f"nats://127.0.0.1:{listener.sockets[0].getsockname()[1]}", ssl.create_default_context()
    acks = Acks(url, nkey_of(SEED, "a test"), context, "tests", "_INBOX.me", troubles.append, 0.5)
    yield World(server, acks, troubles)
    acks.close()
    listener.close()
    await asyncio.sleep(0)


@pytest.mark.parametrize("cut", [1, 3, 10_000])
async def test_a_message_goes_out_whole_and_its_answer_is_found_however_it_is_cut(world: World, cut: int) -> None:
    world.server.cut = cut
    world.server.answer = b"PING\r\nMSG _INBOX.else.1 1 5\r\nhello\r\n" + world.server.answer
    await asyncio.gather(*(world.publish(b"%d\r\n" % n, **{"Nats-Msg-Id": f"id-{n}", "Odd": "a\r\nb"}) for n in range(3)))
    assert world.server.published == [
        (b"forge.v1.x", b"NATS/1.0\r\nNats-Msg-Id: id-%d\r\nOdd: a  b\r\n\r\n%d\r\n" % (n, n)) for n in range(3)
    ]
    assert world.server.connections == 1
    [hello, inbox, *pongs] = world.server.said
    assert f'"nkey":"{nkey_of(SEED, "a test").public}"'.encode() in hello
    assert b'"sig":"' in hello
    assert SEED.encode() not in hello
    assert inbox.startswith(b"SUB _INBOX.me.")
    assert set(pongs) == {b"PONG"}


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"HMSG @ 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n", NoStreamResponseError),
        (b"MSG @ 1 %d\r\n%b\r\n" % (len(REFUSAL), REFUSAL), APIError),
        (b"", nats.errors.TimeoutError),
        (b"MSG @ 1 many\r\n", nats.errors.StaleConnectionError),
        (b"INFO {\r\n", nats.errors.StaleConnectionError),
    ],
)
async def test_what_is_no_acknowledgement_is_an_error_and_the_next_message_goes_out(
    world: World, answer: bytes, error: type[Exception]
) -> None:
    good, world.server.answer = world.server.answer, answer
    with pytest.raises(error):
        await world.publish()
    world.server.answer = good
    await world.publish()
    assert len(world.server.published) == 2


async def test_what_the_server_complains_of_is_told(world: World) -> None:
    world.server.answer = b"-ERR 'Something Else'\r\n" + world.server.answer
    await world.publish()
    assert world.troubles == ["Something Else"]


async def test_a_message_that_is_refused_fails_at_once_and_no_other(world: World) -> None:
    good = world.server.answer
    world.server.answer = b"-ERR 'Permissions Violation for Publish to \"forge.v1.other\"'\r\n" + good
    await world.publish()
    world.server.answer = b"-ERR 'Permissions Violation for Publish to \"forge.v1.x\"'\r\n"
    with pytest.raises(Refused, match=r"may not publish on forge\.v1\.x"):
        await world.publish()
    world.server.answer = good
    await world.publish()
    assert world.server.connections == 1


async def test_the_key_of_another_user_is_a_refusal(world: World) -> None:
    world.server.welcome = b"-ERR 'Permissions Violation for Subscription to \"_INBOX.me.1.*\"'\r\nPONG\r\n"
    with pytest.raises(Refused, match=r"may not listen to _INBOX\.me"):
        await world.publish()


async def test_a_server_that_turns_the_client_away_is_an_error(world: World) -> None:
    world.server.welcome = b"-ERR 'Authorization Violation'\r\n"
    with pytest.raises(nats.errors.Error, match="Authorization Violation"):
        await world.publish()


async def test_nothing_is_published_after_the_end(world: World) -> None:
    world.acks.close()
    with pytest.raises(nats.errors.ConnectionClosedError):
        await world.publish()
