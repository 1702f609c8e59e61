from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from services.dev.keys import make_keys
from services.dev.servers import free_port, nats_command, valkey_command, wait_port
from shared.bus.nats import connect_nats
from shared.config import BusConfig
from shared.errors import ConfigError
from shared.keys import OPERATOR, PROXY, USERS
from shared.store.connect import connect, login_of


def nats(folder: Path, keys: Path, port: int) -> list[str]:
    return nats_command(port, folder, make_keys(keys).bus, 1024 * 1024)


def valkey(folder: Path, keys: Path, port: int) -> list[str]:
    return valkey_command(port, folder, make_keys(keys).store)


@pytest.mark.parametrize("command", [nats, valkey])
def test_servers_are_told_no_secret(command: Callable[[Path, Path, int], list[str]], tmp_path: Path) -> None:
    for _ in range(2):  # also over a file that was left behind
        argv = command(tmp_path / "new folder", tmp_path / "keys", 4000)
        [file] = (tmp_path / "new folder").iterdir()
        assert argv[-1] == str(file)
        secrets = [f.read_text().strip() for user in USERS for f in (tmp_path / "keys").glob(f"{user}.*")]
        assert len(secrets) > len(USERS)
        told = file.read_text() + " ".join(argv)
        assert not [secret for secret in secrets if secret in told]


@pytest.mark.parametrize("command", [nats, valkey])
async def test_a_server_reads_its_users_and_folder_as_they_are(
    command: Callable[[Path, Path, int], list[str]], tmp_path: Path
) -> None:
    port, keys = free_port(), tmp_path / "keys"
    argv = command(tmp_path / 'a "quoted" folder', keys, port)
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL)
    try:
        await wait_port(port, 20)
        await (check_bus if command is nats else check_store)(port, str(keys))
    finally:
        process.kill()
        await process.wait()


async def check_bus(port: int, keys: str) -> None:
    config = BusConfig(url=f"nats://127.0.0.1:{port}", keys=keys, max_payload=1024 * 1024)
    bus = await connect_nats(config, "run-1", OPERATOR)
    await bus.ping()
    await bus.close()


async def check_store(port: int, keys: str) -> None:
    store = connect(f"redis://127.0.0.1:{port}/0", login_of(keys, PROXY))
    assert await store.execute_command("PING")  # type: ignore[no-untyped-call]
    await store.aclose()


async def test_waiting_for_a_port_ends_when_something_listens_or_time_is_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        await wait_port(server.getsockname()[1], 1)
    with pytest.raises(TimeoutError, match=r"nothing listens on 127\.0\.0\.1:\d+ after 0\.1 s"):
        await wait_port(free_port(), 0.1)


def test_a_free_port_is_none_that_a_connection_might_be_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connections = tmp_path / "ip_local_port_range"
    monkeypatch.setattr("services.dev.servers._CONNECTIONS", connections)
    connections.write_text("32768\t60999\n")
    assert {12_768 <= free_port() < 29_768 for _ in range(50)} == {True}
    connections.write_text("2000\t65000\n")
    assert free_port() >= 1024
    connections.unlink()
    assert free_port() >= 1024


def test_a_port_that_is_taken_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ports = iter([taken.getsockname()[1], 0])
        monkeypatch.setattr("services.dev.servers._low_port", lambda: next(ports))
        assert free_port() != taken.getsockname()[1]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setattr("services.dev.servers._low_port", lambda: taken.getsockname()[1])
        with pytest.raises(ConfigError, match="no port"):
            free_port()
