"""The NATS servers that `bus.url` names."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

from shared.errors import ConfigError

_PORT = 4222
_SCHEMES = ("nats", "tls")


class NatsServer(NamedTuple):
    """Where a server is.

    Attributes:
        host: name or address.
        port: TCP port.
        tls: its URL demands TLS; a server may demand it, too.
    """

    host: str
    port: int
    tls: bool = False

    @property
    def name(self) -> str:
        """To tell a person which one it is."""
        return f"{self.host}:{self.port}"


def urls_of(url: str) -> list[str]:
    """The URLs in a setting, of the servers of one cluster: ``nats://a:4222,nats://b:4222``."""
    return [one if "://" in one else f"nats://{one}" for one in map(str.strip, url.split(",")) if one]


def servers_of(url: str) -> list[NatsServer]:
    """The servers of one cluster, in the order in which they are tried.

    Raises:
        ConfigError: one is no URL of a NATS server, or there is none.
    """
    if not (urls := urls_of(url)):
        raise ConfigError("bus.url names no server; one is nats://host:4222, several stand with commas between")
    return list(map(_server, urls))


def _server(url: str) -> NatsServer:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or _PORT
    except ValueError as e:
        raise ConfigError(f"bus.url: {url.rpartition('@')[2]} cannot be read: {e}") from None
    if parts.scheme not in _SCHEMES or not host:
        raise ConfigError(
            f"bus.url: {parts.scheme}://{parts.netloc.rpartition('@')[2]} is not nats://host:port or tls://host:port"
        )
    if "@" in parts.netloc:
        raise ConfigError(f"bus.url: {host} has a name or a password before it; set bus.keys to a folder with nkeys instead")
    return NatsServer(host, port, parts.scheme == "tls")
