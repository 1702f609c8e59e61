"""The unix socket, for sandboxes without a network."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import aiohttp
import pytest

from services.proxy.listening import listen_unix
from shared.errors import ConfigError
from tests.unit.proxy.world import MakeWorld, World, body


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "proxy" / "proxy.sock"


@pytest.fixture
async def socketed(make_world: MakeWorld, path: Path) -> World:
    return await make_world(socket=str(path))


async def call(path: Path, base: str) -> int:
    """One model call through the socket; its status."""
    secret = base.split("/run/")[1]
    async with (
        aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(path))) as http,
        http.post(f"http://proxy/run/{secret}/v1/chat/completions", json=body("hi")) as reply,
    ):
        return reply.status


async def test_a_call_through_the_socket_is_recorded_like_any_other(socketed: World, path: Path) -> None:
    assert await call(path, await socketed.open()) == 200
    assert [record.session_id for record in socketed.records] == ["r1-a1"]


async def test_every_user_may_connect(socketed: World, path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o666
    assert path.parent.stat().st_mode & 0o055 == 0o055


async def test_the_socket_has_no_control_routes(socketed: World, path: Path) -> None:
    async with (
        aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(path))) as http,
        http.put("http://proxy/control/sessions/r2-a1", json={}, headers=socketed.control) as reply,
    ):
        assert reply.status == 404


async def test_a_name_may_have_the_machines_in_it(make_world: MakeWorld, path: Path) -> None:
    world = await make_world(socket=str(path.with_name("{host}.sock")))
    assert await call(path.with_name(f"{socket.gethostname()}.sock"), await world.open()) == 200


async def test_it_is_gone_once_the_proxy_stopped_and_another_proxy_may_have_it(socketed: World, path: Path) -> None:
    await socketed.proxy.stop()
    assert not path.exists()
    successor = socketed.another_proxy()
    await successor.start()
    assert path.exists()
    await successor.stop()


def test_what_a_killed_proxy_left_is_replaced(path: Path) -> None:
    listen_unix(str(path)).close()  # the file stays, as after kill -9
    with listen_unix(str(path)), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))


def test_a_socket_that_somebody_listens_on_is_left_alone(path: Path) -> None:
    with listen_unix(str(path)), pytest.raises(ConfigError, match="another process listens on it"):
        listen_unix(str(path))


def test_a_file_in_its_place_is_left_alone(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("mine")
    with pytest.raises(ConfigError, match="there is a file of that name"):
        listen_unix(str(path))
    assert path.read_text() == "mine"


def test_a_path_that_is_too_long_is_refused_with_the_setting(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"set proxy\.socket"):
        listen_unix(os.path.join(tmp_path, "x" * 120, "proxy.sock"))
