"""The three servers of the bus and of the store of k8s/overlays/gpu, run here as the manifests have them: only addresses and
folders differ."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from contextlib import AsyncExitStack, closing, suppress
from pathlib import Path

import aiohttp
import pytest
from redis.exceptions import RedisError

from services.collector.handling import ROLLOUTS
from services.dev.keys import make_keys
from services.dev.servers import free_port, nats_command, valkey_command, wait_port
from shared.bus.nats import connect_nats
from shared.config import BusConfig
from shared.errors import StoreUnavailable
from shared.events import Message, RolloutScheduled
from shared.keys import COLLECTOR, OPERATOR, ORCHESTRATOR
from shared.store.connect import Client, connect, login_of
from tests.kube.manifests import data_of, of_kind, pod_specs, rendered
from tests.waiting import eventually

pytestmark = [pytest.mark.fleet, pytest.mark.real, pytest.mark.slow]

OVERLAY = "overlays/gpu"
RUN = "first"
NUMBERS = range(3)
PATIENCE_S = 60.0
"""What servers may take to find each other, on a busy machine."""


class Servers:
    """Three programs in folders of their own, each of which may be killed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.keys = folder, folder / "keys"
        self.ports = [free_port() for _ in NUMBERS]
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        make_keys(self.keys)

    def spawn(self, number: int, command: list[str], env: dict[str, str]) -> None:
        """Starts one of them."""
        with (self.folder / f"{number}.log").open("ab") as log:
            self._running[number] = subprocess.Popen(command, env=os.environ | env, stdout=log, stderr=log)

    def kill(self, number: int) -> None:
        """kill -9."""
        process = self._running.pop(number)
        process.kill()
        process.wait()

    def close(self) -> None:
        """Kills what runs."""
        for number in list(self._running):
            self.kill(number)


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    with closing(Servers(tmp_path)) as made:
        yield made


def nats_conf(servers: Servers, number: int, routes: list[int], monitor: int) -> Path:
    """The configuration of the manifests, for one of several servers of this machine."""
    conf, folder = data_of(rendered(OVERLAY), "nats")["nats.conf"], servers.folder / f"nats-{number}"
    folder.mkdir()
    (folder / "users").symlink_to(servers.keys / "server")
    moved = {"0.0.0.0:4222": servers.ports[number], "0.0.0.0:8222": monitor, "0.0.0.0:6222": routes[number]}
    moved |= {f"nats-{n}.nats:6222": port for n, port in enumerate(routes)}
    for address, port in moved.items():
        assert address in conf
        conf = conf.replace(address, f"127.0.0.1:{port}")
    file = folder / "nats.conf"
    file.write_text(conf.replace('"/data"', f'"{folder}/data"'))
    return file


async def test_three_servers_of_the_bus_keep_three_copies_and_one_may_die(servers: Servers, tmp_path: Path) -> None:
    routes, monitors = [free_port() for _ in NUMBERS], [free_port() for _ in NUMBERS]
    [server, *_] = nats_command(free_port(), tmp_path / "unused", "", 1)
    for number in NUMBERS:
        file = nats_conf(servers, number, routes, monitors[number])
        servers.spawn(number, [server, "-c", str(file)], {"POD_NAME": f"nats-{number}"})
    for port in servers.ports:
        await wait_port(port, PATIENCE_S)
    urls = ",".join(f"nats://127.0.0.1:{port}" for port in servers.ports)
    config = BusConfig(url=urls, keys=str(servers.keys), replicas=3, timeout_s=PATIENCE_S, max_bytes=1 << 20)
    async with AsyncExitStack() as stack:
        buses = []
        for user in (COLLECTOR, ORCHESTRATOR):  # the first one makes the streams
            buses.append(await connect_nats(config, RUN, user))
            stack.push_async_callback(buses[-1].close)
        heard: set[str] = set()

        async def handle(message: Message) -> None:
            heard.add(message.key)

        await buses[0].consume("collector-rollouts", ROLLOUTS, handle, run_id=RUN)
        await buses[1].publish(scheduled("r1"))
        servers.kill(int((await leader_of(monitors)).removeprefix("nats-")))
        await buses[1].publish(scheduled("r2"))

        async def both() -> bool:
            return heard == {"r1", "r2"}

        await eventually(both, PATIENCE_S)


def scheduled(rollout: str) -> RolloutScheduled:
    return RolloutScheduled(
        run_id=RUN, rollout_id=rollout, group_id="g", attempt=1, group_size=1, task="t", harness="react"
    )  # fmt: skip


async def leader_of(monitors: list[int]) -> str:
    """The server that leads the consumer, once all of them say the same."""
    named: set[str] = set()

    async def agreed() -> bool:
        named.clear()
        with suppress(KeyError, ValueError):  # one of them does not know of it yet
            named.update([await leader_as_keda_finds_it(monitor) for monitor in monitors])
        return len(named) == 1 and named != {""}

    await eventually(agreed, PATIENCE_S)
    return named.pop()


async def leader_as_keda_finds_it(monitor: int) -> str:
    """The server that leads the consumer of the scaled object's second trigger, as one of the servers says."""
    [collector] = [each for each in of_kind(rendered(OVERLAY), "ScaledObject") if each["metadata"]["name"] == "collector"]
    [trigger] = [each["metadata"] for each in collector["spec"]["triggers"] if each["metadata"]["stream"] == "FORGE-EVENTS"]
    url = f"http://127.0.0.1:{monitor}/jsz?acc={trigger['account']}&consumers=true&config=true"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        [account] = (await response.json())["account_details"]
    [stream] = [each for each in account["stream_detail"] if each["name"] == trigger["stream"]]
    assert len(stream["cluster"]["replicas"]) == 2
    [consumer] = [each for each in stream["consumer_detail"] if each["name"] == trigger["consumer"]]
    assert "num_pending" in consumer
    return str(consumer["cluster"]["leader"])


def start_redis(servers: Servers, number: int, primary: int) -> None:
    """Runs what the container runs, for one of several servers of this machine."""
    [script] = pod_specs(rendered(OVERLAY))["redis"]["containers"][0]["args"]
    folder = servers.folder / f"redis-{number}"
    folder.mkdir(exist_ok=True)
    [server, *_] = valkey_command(free_port(), servers.folder / "unused", "")
    moved = {
        "/etc/redis/users": servers.keys / "server", "cat /keys/": f"cat {servers.keys}/",
        "/tmp/redis.conf": folder / "redis.conf",
        "$PRIMARY.redis-peers 6379": f"127.0.0.1 {servers.ports[primary]}",
        "exec redis-server": f"exec {server}",
    }  # fmt: skip
    for theirs, ours in moved.items():
        assert theirs in script
        script = script.replace(theirs, str(ours))
    script = script.rstrip() + f" --port {servers.ports[number]} --dir {folder}"
    servers.spawn(number, ["sh", "-c", script], {"POD_NAME": f"redis-{number}", "PRIMARY": f"redis-{primary}"})


def client_of(servers: Servers, number: int) -> Client:
    return connect(f"redis://127.0.0.1:{servers.ports[number]}/0", login_of(str(servers.keys), OPERATOR), PATIENCE_S)


async def copies(client: Client) -> int:
    with suppress(StoreUnavailable, RedisError, OSError):
        return int((await client.info("replication"))["connected_slaves"])
    return -1


async def test_two_servers_of_the_store_copy_the_first_and_one_of_them_can_take_its_place(servers: Servers) -> None:
    for number in NUMBERS:
        start_redis(servers, number, primary=0)
    async with AsyncExitStack() as stack:
        clients = [client_of(servers, number) for number in NUMBERS]
        for client in clients:
            stack.push_async_callback(client.aclose)

        async def complete() -> bool:
            return await copies(clients[0]) == 2

        await eventually(complete, PATIENCE_S)
        await clients[0].set("of:{r}:sess", "kept")

        async def copied() -> bool:
            return await clients[1].get("of:{r}:sess") == b"kept" == await clients[2].get("of:{r}:sess")

        await eventually(copied, PATIENCE_S)
        for number in NUMBERS:
            servers.kill(number)
        for number in (1, 2):  # the first one's node is gone
            start_redis(servers, number, primary=1)

        async def one_copy() -> bool:
            return await copies(clients[1]) == 1

        await eventually(one_copy, PATIENCE_S)
        assert await clients[1].get("of:{r}:sess") == b"kept"
        servers.kill(2)

        async def alone() -> bool:
            return await copies(clients[1]) == 0

        await eventually(alone, PATIENCE_S)
        waits = asyncio.ensure_future(clients[1].set("of:{r}:sess", "more"))
        assert not (await asyncio.wait({waits}, timeout=0.5))[0]  # until there is a copy again
        start_redis(servers, 2, primary=1)
        assert await waits
