"""Embedded servers that tests may start, kill and start again."""

from __future__ import annotations

import secrets
import subprocess
from dataclasses import dataclass
from pathlib import Path

from services.dev.servers import free_port, nats_command, valkey_command, wait_port

MAX_PAYLOAD = 1024 * 1024
_START_S = 20.0


@dataclass(frozen=True, slots=True)
class Address:
    """Where clients find a server, and the token or password that they must show."""

    url: str
    secret: str


class Server:
    """One server in a folder, not started yet. Killed and started again it has the same address and data."""

    def __init__(self, address: Address, port: int, command: list[str], folder: Path) -> None:
        self.address = address
        self._port, self._command, self._log = port, command, folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of the running process."""
        assert self._process is not None, "the server was not started"
        return self._process.pid

    async def start(self) -> None:
        """Returns when the server listens."""
        self._spawn()
        await wait_port(self._port, _START_S)

    def kill(self) -> None:
        """kill -9, unless it is dead already."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _spawn(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def nats(folder: Path) -> Server:
    """A NATS server with JetStream."""
    port, token = free_port(), secrets.token_hex(8)
    command = nats_command(port, folder, token, MAX_PAYLOAD)
    return Server(Address(f"nats://127.0.0.1:{port}", token), port, command, folder)


def valkey(folder: Path) -> Server:
    """A Redis-compatible server."""
    port, password = free_port(), secrets.token_hex(8)
    command = valkey_command(port, folder, password)
    return Server(Address(f"redis://127.0.0.1:{port}/0", password), port, command, folder)
