"""What each user may do at a real server: all that its service does, and nothing else. What is refused is refused at once."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from services.dev.keys import make_keys
from services.dev.servers import free_port, nats_command
from shared.bus.nats import NatsBus, connect_nats
from shared.bus.refusals import Refused
from shared.bus.rights import RIGHTS
from shared.config import BusConfig
from shared.errors import BusRefused, BusUnavailable, Rejected
from shared.events import MESSAGES, CallRecorded, GroupCompleted, Message, RolloutFailed, RolloutStart, WeightsLoaded
from shared.keys import COLLECTOR, HISTORY, OPERATOR, ORCHESTRATOR, PROXY, TAP, TRAINER, USERS
from shared.subjects import dead_subject, pattern_of, subject_of
from tests.contract.bus_kit import call, failed
from tests.embedded import MAX_PAYLOAD, Address, Server
from tests.waiting import until

RUN, OTHER_RUN = "run-1", "run-2"
AT_ONCE_S = 2.5
"""Far less than `timeout_s`: no refusal is waited out. It leaves room for a busy machine."""
SERVICES = [user for user in USERS if user != OPERATOR]
pytestmark = pytest.mark.slow


def server_in(folder: Path, run_id: str) -> Server:
    port, keys = free_port(), folder / "keys"
    command = nats_command(port, folder, make_keys(keys, run_id).bus, MAX_PAYLOAD)
    return Server(Address(f"nats://127.0.0.1:{port}", str(keys)), port, command, folder)


@pytest.fixture(scope="module", params=[RUN, "*"], ids=["one run", "any run"])
def locked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """A server whose users are those of one run, or of any, with the streams."""
    server = server_in(tmp_path_factory.mktemp("locked"), request.param)
    asyncio.run(server.start())
    asyncio.run(make_streams(server.address))
    yield server.address
    server.kill()


async def make_streams(address: Address) -> None:
    await (await connect_nats(config_of(address), RUN, OPERATOR)).close()


def config_of(address: Address, timeout_s: float = 5.0) -> BusConfig:
    return BusConfig(
        url=address.url, keys=address.keys, max_payload=MAX_PAYLOAD, max_bytes=64 * MAX_PAYLOAD, max_deliver=2,
        timeout_s=timeout_s,
    )  # fmt: skip


@asynccontextmanager
async def as_user(user: str, address: Address) -> AsyncIterator[NatsBus]:
    bus = await connect_nats(config_of(address), RUN, user)
    try:
        yield bus
    finally:
        await bus.close()


async def refused(what: Awaitable[object], *, match: str) -> None:
    """It is, at once, and the error says why and whom."""
    began = time.monotonic()
    with pytest.raises((BusRefused, Refused), match=match):
        await what
    assert time.monotonic() - began < AT_ONCE_S


async def put(bus: NatsBus, kind: type[Message], key: str, run_id: str = RUN) -> None:
    await bus.publish_raw(pattern_of(kind, run_id, key), b"{}", f"{run_id}/{kind.__name__}/{key}")


@pytest.mark.parametrize("user", SERVICES)
async def test_a_user_publishes_what_is_its_own_and_nothing_else(locked: Address, user: str) -> None:
    async with as_user(user, locked) as bus:
        for kind in MESSAGES:
            if kind in RIGHTS[user].publishes:
                await put(bus, kind, user)
            else:
                await refused(put(bus, kind, user), match=rf"refuses the user {user} to publish forge\.v1")


@pytest.mark.parametrize("user", [user for user in SERVICES if RIGHTS[user].consumes])
async def test_a_user_takes_what_is_its_own_and_gives_it_up(locked: Address, user: str) -> None:
    async with as_user(user, locked) as bus, as_user(OPERATOR, locked) as operator:

        async def handle(message: Message) -> None:
            raise Rejected("by the test")

        for durable, types in RIGHTS[user].consumes.items():
            if durable in ("own-trainer", "my-trainer"):
                continue
            await bus.consume(durable, types, handle, run_id=RUN)
            assert await bus.backlog(durable, types, run_id=RUN) >= 0
            before = bus.counts["dead"]
            await put(operator, types[0], f"for-{durable}")  # it is no message, and becomes a dead letter
            await until(lambda before=before: bus.counts["dead"] > before, 20)  # type: ignore[misc]


async def test_a_collector_keeps_the_streams(locked: Address) -> None:
    async with as_user(COLLECTOR, locked) as bus, as_user(OPERATOR, locked) as operator:
        await bus.trim()
        assert (await bus.load()).streams
        await bus.keep_strays()
        await operator.publish(call(RUN, 1))
        assert [m async for _, m in bus.replay(CallRecorded, RUN, "*", 0)]
        assert await bus.keys(CallRecorded, RUN)
        stray = await operator.publish_raw(f"forge.v1.evt.nobody.knows.{RUN}.k", b"?", "stray-1")
        assert stray.stream == "FORGE-DEAD"  # whom it was given to may answer its publisher


async def test_a_proxy_reads_calls_back_and_takes_part_in_nothing_else(locked: Address) -> None:
    async with as_user(PROXY, locked) as bus, as_user(OPERATOR, locked) as operator:
        await operator.publish(call(RUN, 2))
        await operator.publish(WeightsLoaded(run_id=RUN, version=3))
        await bus.ping()
        assert [m async for _, m in bus.replay(CallRecorded, RUN, "*", 0)]
        assert "v3" in await bus.keys(WeightsLoaded, RUN)

        async def handle(message: Message) -> None: ...

        await refused(
            bus.consume("mine", [GroupCompleted], handle, run_id=RUN), match="refuses the user proxy to make the consumer"
        )
        await refused(bus.dead_letters(), match="refuses the user proxy to read forge")
        await refused(anext(bus.tap("forge.v1.>")), match=r"may not listen to forge\.v1\.>")


@pytest.mark.parametrize("request_", ["STREAM.DELETE.FORGE-CALLS", "STREAM.PURGE.FORGE-CALLS", "STREAM.UPDATE.FORGE-GROUPS"])
async def test_a_service_does_nothing_to_a_stream(locked: Address, request_: str) -> None:
    async with as_user(TRAINER, locked) as bus:
        await refused(bus._link.client.request(f"$JS.API.{request_}", b"{}", timeout=5), match="may not publish on")


async def test_the_tap_sees_everything_and_says_nothing(locked: Address) -> None:
    async with as_user(TAP, locked) as bus, as_user(OPERATOR, locked) as operator:
        taps, seen = bus.tap("forge.v1.>"), []  # type: ignore[var-annotated]
        reading = asyncio.create_task(_read(taps, seen))
        await until(lambda: bool(bus._link.client._subs))
        await bus._link.client.flush()
        await operator.publish(message := failed(RUN, 7))
        await until(lambda: message in seen)
        await refused(bus.publish(failed(RUN, 8)), match="refuses the user tap to publish")
        await refused(bus.ping(), match="refuses the user tap to answer")
        reading.cancel()


async def test_history_looks_back_at_all_that_is_kept_and_changes_nothing(locked: Address) -> None:
    message = failed(RUN, 9)
    async with as_user(HISTORY, locked) as bus, as_user(OPERATOR, locked) as operator:
        await operator.publish(message)
        await operator.publish_raw(dead_subject(subject_of(message)), b"garbage", "history-test")
        found = [tapped async for _, tapped in bus.history("forge.v1.>", 0.0)]
        assert message in [tapped.message for tapped in found]
        assert b"garbage" in [tapped.data for tapped in found]
        [letter] = [letter for letter in await bus.dead_letters() if letter.data == b"garbage"]
        await refused(bus.publish(failed(RUN, 8)), match="refuses the user history to publish")
        await refused(bus.drop(letter), match="refuses the user history to delete")
        await refused(bus.consume("own", [RolloutFailed], _nothing, run_id=RUN), match="refuses the user history to make")
        await operator.drop(letter)


async def _nothing(message: Message) -> None:
    """Does nothing."""


async def _read(taps: AsyncIterator[object], seen: list[object]) -> None:
    async for tapped in taps:
        seen.append(getattr(tapped, "message", None))


@pytest.mark.parametrize("pattern", [f"_INBOX.{COLLECTOR}.>", "_INBOX.>", ">", "*.*.>", "$JS.>"])
@pytest.mark.parametrize("user", [PROXY, TAP])
async def test_nobody_hears_the_inbox_of_another(locked: Address, user: str, pattern: str) -> None:
    async with as_user(user, locked) as bus:
        await refused(anext(bus.tap(pattern)), match="may not listen to")


@pytest.mark.parametrize(("user", "other"), [(PROXY, COLLECTOR), (COLLECTOR, PROXY), (TRAINER, ORCHESTRATOR)])
async def test_a_service_with_the_key_of_another_is_refused(locked: Address, tmp_path: Path, user: str, other: str) -> None:
    shutil.copy(f"{locked.keys}/{other}.nk", tmp_path / f"{user}.nk")
    wrong = Address(locked.url, str(tmp_path))
    await refused(connect_nats(config_of(wrong), RUN, user), match=rf"refuses the user {user} .*_INBOX\.{user}\.>")


async def test_users_of_one_run_are_refused_in_another(tmp_path: Path) -> None:
    server = server_in(tmp_path, RUN)
    await server.start()
    try:
        await make_streams(server.address)
        async with as_user(ORCHESTRATOR, server.address) as bus:

            async def handle(message: Message) -> None: ...

            await refused(put(bus, RolloutFailed, "k", OTHER_RUN), match="refuses the user orchestrator to publish")
            await refused(bus.consume("orchestrator", [RolloutStart], handle, run_id=OTHER_RUN), match="make the consumer")
            await refused(bus.consume("trainer-groups", [GroupCompleted], handle, run_id=RUN), match="make the consumer")
    finally:
        server.kill()


async def test_a_service_waits_for_the_streams_of_a_new_server(tmp_path: Path) -> None:
    server = server_in(tmp_path, RUN)
    await server.start()
    try:
        with pytest.raises(BusUnavailable, match=r"have the stream FORGE-CALLS made .*a collector makes it"):
            await connect_nats(config_of(server.address, 0.3), RUN, PROXY)
        connecting = asyncio.create_task(connect_nats(config_of(server.address), RUN, PROXY))
        await asyncio.sleep(0.2)
        async with as_user(COLLECTOR, server.address):
            bus = await connecting
        await bus.publish(call(RUN, 1))
        await bus.close()
    finally:
        server.kill()


async def test_a_renewed_key_replaces_the_old_one(tmp_path: Path) -> None:
    server = server_in(tmp_path, RUN)
    await server.start()
    try:
        await make_streams(server.address)
        shutil.copytree(server.address.keys, old := tmp_path / "old")
        users = make_keys(Path(server.address.keys), RUN, renew=[PROXY])
        server.kill()
        nats_command(int(server.address.url.rpartition(":")[2]), tmp_path, users.bus, MAX_PAYLOAD)
        await server.start()
        async with as_user(PROXY, server.address) as bus:
            await bus.publish(call(RUN, 1))
        with pytest.raises(BusUnavailable, match="Authorization Violation"):
            await connect_nats(config_of(Address(server.address.url, str(old)), 0.5), RUN, PROXY)
        async with as_user(COLLECTOR, Address(server.address.url, str(old))):
            pass  # the others' keys stay
    finally:
        server.kill()
