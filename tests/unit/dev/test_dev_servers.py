from __future__ import annotations

import asyncio
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from services.dev.servers import free_port, nats_command, valkey_command, wait_port

SECRET = 'tok"en \\ $HOME'


def nats(folder: Path, port: int) -> list[str]:
    return nats_command(port, folder, SECRET, 1024 * 1024)


def valkey(folder: Path, port: int) -> list[str]:
    return valkey_command(port, folder, SECRET)


@pytest.mark.parametrize("command", [nats, valkey])
def test_secrets_are_readable_by_the_owner_alone_and_not_in_the_command_line(
    command: Callable[[Path, int], list[str]], tmp_path: Path
) -> None:
    folder = tmp_path / "new folder"
    folder.mkdir()
    for _ in range(2):  # also over a file that was left behind
        argv = command(folder, 4000)
        [file] = folder.iterdir()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert "tok" not in " ".join(argv)
        assert argv[-1] == str(file)


@pytest.mark.parametrize("command", [nats, valkey])
async def test_a_server_reads_its_secret_and_folder_as_they_are(
    command: Callable[[Path, int], list[str]], tmp_path: Path
) -> None:
    port = free_port()
    argv = command(tmp_path / 'a "quoted" folder', port)
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL)
    try:
        await wait_port(port, 20)
        assert await authorized(port, argv[0])
    finally:
        process.kill()
        await process.wait()


async def authorized(port: int, program: str) -> bool:
    """Speaks the server's own protocol, as its clients do."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    quoted = SECRET.replace("\\", "\\\\").replace('"', '\\"')
    if program.endswith("nats-server"):
        await reader.readline()
        writer.write(f'CONNECT {{"auth_token":"{quoted}","verbose":false}}\r\nPING\r\n'.encode())
    else:
        writer.write(f'AUTH "{quoted}"\r\n'.encode())
    answer = await reader.readline()
    writer.close()
    await writer.wait_closed()
    return answer.strip() in (b"PONG", b"+OK")


async def test_waiting_for_a_port_ends_when_something_listens_or_time_is_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        await wait_port(server.getsockname()[1], 1)
    with pytest.raises(TimeoutError, match=r"nothing listens on 127\.0\.0\.1:\d+ after 0\.1 s"):
        await wait_port(free_port(), 0.1)
