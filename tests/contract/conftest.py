"""Servers for the contract tests: embedded ones that may be hurt, and containers when a docker engine answers."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from testcontainers.community.nats import NatsContainer
from testcontainers.community.redis import RedisContainer
from testcontainers.core.config import testcontainers_config

from tests.embedded import Address, Server, nats, valkey

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
def nats_container(docker_engine: None) -> Iterator[Address]:
    """NATS in a container."""
    token = secrets.token_hex(8)
    with NatsContainer("nats:2.10").with_command(f"-js --auth {token}") as container:
        yield Address(container.nats_uri(), token)


@pytest.fixture(scope="session")
def redis_container(docker_engine: None) -> Iterator[Address]:
    """Redis in a container."""
    password = secrets.token_hex(8)
    with RedisContainer("redis:7", password=password) as container:
        yield Address(f"redis://{container.get_container_host_ip()}:{container.get_exposed_port(6379)}/0", password)
