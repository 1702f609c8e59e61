"""What `bus.url` may say."""

from __future__ import annotations

import pytest

from shared.bus.servers import NatsServer, servers_of, urls_of
from shared.errors import ConfigError


@pytest.mark.parametrize(
    ("url", "servers"),
    [
        ("nats://host", [NatsServer("host", 4222)]),
        ("host:1", [NatsServer("host", 1)]),
        ("tls://[::1]:7, b", [NatsServer("::1", 7, tls=True), NatsServer("b", 4222)]),
    ],
)
def test_it_names_servers(url: str, servers: list[NatsServer]) -> None:
    assert servers_of(url) == servers
    assert servers_of(",".join(urls_of(url))) == servers


@pytest.mark.parametrize(
    "url",
    [
        "",
        " , ",
        "http://me:secret@host",
        "nats://host:port",
        "nats://me:secret@:1",
        "nats://secret@host",
        "tls://me:secret@host:1",
        "nats://[::1",
    ],
)
def test_anything_else_is_an_error_that_keeps_secrets(url: str) -> None:
    with pytest.raises(ConfigError, match=r"bus\.url") as refused:
        servers_of(url)
    assert "secret" not in str(refused.value)
