"""Embedded servers that tests may start, kill and start again."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from services.dev.keys import make_keys
from services.dev.servers import free_port, nats_command, valkey_command, wait_port
from shared.keys import OPERATOR, SEED
from shared.store.connect import Login, login_of

MAX_PAYLOAD = 1024 * 1024
_START_S = 20.0


@dataclass(frozen=True, slots=True)
class Address:
    """Where clients find a server, and the folder with the keys of its users."""

    url: str
    keys: str

    @property
    def seed(self) -> str:
        """File with the operator's key, for clients that are none of ours."""
        return f"{self.keys}/{OPERATOR}.{SEED}"

    @property
    def login(self) -> Login | None:
        """The operator's, at a store."""
        return login_of(self.keys, OPERATOR)


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
    port, keys = free_port(), folder / "keys"
    command = nats_command(port, folder, make_keys(keys).bus, MAX_PAYLOAD)
    return Server(Address(f"nats://127.0.0.1:{port}", str(keys)), port, command, folder)


def valkey(folder: Path) -> Server:
    """A Redis-compatible server."""
    port, keys = free_port(), folder / "keys"
    command = valkey_command(port, folder, make_keys(keys).store)
    return Server(Address(f"redis://127.0.0.1:{port}/0", str(keys)), port, command, folder)
