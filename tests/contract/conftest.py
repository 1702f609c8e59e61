"""Servers for the contract tests: embedded ones that may be hurt, and containers when a docker engine answers."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import docker
import pytest
import yaml
from testcontainers.community.nats import NatsContainer
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

from services.dev.keys import make_keys
from shared.bus.memory import Broker, MemoryBus
from shared.bus.nats import connect_nats
from shared.config import BusConfig
from shared.keys import OPERATOR
from tests.contract.backend_kits import backend_kit, docker_kit, kubernetes_kit, local_kit, node_with_images, twin_kit
from tests.contract.bus_kit import ACK_WAIT_S, MAX_DELIVER, AnyBus, NewBus
from tests.contract.store_kit import address, assembly, client, door, sessions
from tests.embedded import MAX_PAYLOAD, Address, Server, nats, valkey
from tests.kube.fixtures import admin, cluster, fake_nodes, make_backend, namespace, real_node

__all__ = [
    "address",
    "admin",
    "assembly",
    "backend_kit",
    "client",
    "cluster",
    "docker_kit",
    "door",
    "fake_nodes",
    "kubernetes_kit",
    "local_kit",
    "make_backend",
    "namespace",
    "node_with_images",
    "real_node",
    "sessions",
    "twin_kit",
]  # fmt: skip

REPO = Path(__file__).resolve().parents[2]
COMPOSE = yaml.safe_load((REPO / "docker-compose.yml").read_text())["services"]
_NO_DOCKER = "docker engine not reachable: scripts/docker-engine.sh DIR as root, then source DIR/env"


@pytest.fixture
def mortal_nats(tmp_path: Path) -> Iterator[Server]:
    """A NATS server of one's own, not started yet."""
    server = nats(tmp_path / "nats")
    yield server
    server.kill()


@pytest.fixture
def mortal_store(tmp_path: Path) -> Iterator[Server]:
    """A valkey server of one's own, not started yet."""
    server = valkey(tmp_path / "valkey")
    yield server
    server.kill()


@pytest.fixture(scope="session")
def docker_engine() -> None:
    """Skips what needs docker where there is none; with CI=true that is a failure."""
    try:
        docker.from_env().ping()
    except docker.errors.DockerException:
        if os.environ.get("CI") == "true":
            pytest.fail(_NO_DOCKER)
        pytest.skip(_NO_DOCKER)
    testcontainers_config.ryuk_disabled = True  # the fixtures remove their containers; ryuk would be one more image to have


@pytest.fixture(scope="session")
def nats_container(docker_engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """NATS in a container, as docker-compose.yml has it."""
    service, keys = COMPOSE["nats"], tmp_path_factory.mktemp("nats") / "keys"
    make_keys(keys)
    container = NatsContainer(service["image"]).with_command(service["command"])
    container.with_volume_mapping(str(keys / "server"), "/etc/nats/users")
    with container.with_volume_mapping(str(REPO / "k8s/base/nats.conf"), "/etc/nats/nats.conf"):
        yield Address(container.nats_uri(), str(keys))


@pytest.fixture(scope="session")
def redis_container(docker_engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """Redis in a container, as docker-compose.yml has it."""
    service, keys = COMPOSE["redis"], tmp_path_factory.mktemp("redis") / "keys"
    make_keys(keys)
    container = DockerContainer(service["image"]).with_command(service["command"]).with_exposed_ports(6379)
    container.with_volume_mapping(str(keys / "server"), "/etc/redis/users")
    with container.waiting_for(LogMessageWaitStrategy("Ready to accept connections")):
        yield Address(f"redis://{container.get_container_host_ip()}:{container.get_exposed_port(6379)}/0", str(keys))


@pytest.fixture
def run_id() -> str:
    """A run of this test alone, as servers are shared."""
    return f"run-{uuid.uuid4().hex[:12]}"


@pytest.fixture(params=["memory", "embedded", "container"])
def bus_address(request: pytest.FixtureRequest) -> Address | None:
    """Where the bus is; None for the twin."""
    fixture = {"memory": None, "embedded": "nats_server", "container": "nats_container"}[request.param]
    return request.getfixturevalue(fixture) if fixture else None


@pytest.fixture
async def new_bus(bus_address: Address | None, run_id: str) -> AsyncIterator[NewBus]:
    """Makes connections to one and the same bus."""
    opened: list[AnyBus] = []
    broker = Broker()

    async def connect() -> AnyBus:
        if bus_address is None:
            opened.append(MemoryBus(broker, max_deliver=MAX_DELIVER, max_payload=MAX_PAYLOAD))
        else:
            config = BusConfig(
                url=bus_address.url, keys=bus_address.keys, max_deliver=MAX_DELIVER, max_payload=MAX_PAYLOAD,
                max_bytes=64 * MAX_PAYLOAD,
                ack_wait_s=ACK_WAIT_S,
            )  # fmt: skip
            opened.append(await connect_nats(config, run_id, OPERATOR))
        return opened[-1]

    yield connect
    for bus in opened:
        await bus.close()


@pytest.fixture
async def bus(new_bus: NewBus) -> AnyBus:
    """One connection."""
    return await new_bus()
