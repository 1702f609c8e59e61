"""What is brought into containers: a harness image of a real engine, and the volume that is filled from it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiodocker import Docker

from services.orchestrator.backends.docker.engine import connect
from services.orchestrator.backends.docker.images import build
from services.orchestrator.backends.docker.tools import Tools, fill_volume
from services.orchestrator.harnesses.layout import PYTHON, TOOLS
from tests.contract.docker_room import BASE, context

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.usefixtures("docker_engine")]

EMPTY = "openforge-test-empty:1"
_IMPORTS = "import asyncio, bz2, ctypes, hashlib, lzma, socket, sqlite3, ssl, zlib, sys; print(sys.prefix)"


@pytest.fixture
async def docker() -> AsyncIterator[Docker]:
    engine = connect("")
    yield engine
    await engine.close()


async def printed(docker: Docker, image: str, volume: str, *argv: str) -> str:
    """What a program prints in a container that has nothing but an image and the tools."""
    config: dict[str, Any] = {
        "Image": image, "Entrypoint": list(argv),
        "HostConfig": {
            "NetworkMode": "none", "Mounts": [{"Type": "volume", "Source": volume, "Target": TOOLS, "ReadOnly": True}],
        },
    }  # fmt: skip
    container = await docker.containers.create(config)
    try:
        await container.start()
        ended = await container.wait()
        said = "".join(await container.log(stdout=True, stderr=True))
        assert ended["StatusCode"] == 0, said
        return said
    finally:
        await container.delete(force=True)


async def test_the_python_that_is_brought_along_runs_in_an_image_with_nothing_in_it(docker: Docker) -> None:
    await build(docker, EMPTY, context(Dockerfile="FROM scratch\nLABEL nothing=here\n"), 60.0, print)
    volume = await Tools(docker, "").volume("react")
    assert await printed(docker, EMPTY, volume, PYTHON, "-I", "-S", "-c", _IMPORTS) == f"{TOOLS}/python\n"


async def test_what_agents_start_uses_their_images_own_libraries(docker: Docker) -> None:
    volume = await Tools(docker, "").volume("react")
    code = "import subprocess; subprocess.run(['ldd', '/bin/ls'])"
    assert TOOLS not in await printed(docker, BASE, volume, PYTHON, "-I", "-S", "-c", code)


@pytest.fixture
async def volume(docker: Docker) -> AsyncIterator[str]:
    """A name of a volume; what has it is gone afterwards."""
    name = f"openforge-test-{secrets.token_hex(4)}"
    yield name
    await docker.containers.container(name).delete(force=True)
    await (await docker.volumes.get(name)).delete()


@pytest.fixture
async def image(docker: Docker) -> str:
    name = "openforge-test-filling:1"
    await build(
        docker, name, context(Dockerfile=f"FROM {BASE}\nRUN mkdir /openforge && echo whole >/openforge/note\n"), 60.0, print
    )
    return name


async def test_a_volume_is_filled_once_whoever_asks_at_the_same_time(docker: Docker, image: str, volume: str) -> None:
    await asyncio.gather(*(fill_volume(docker, image, volume) for _ in range(4)))
    assert await printed(docker, BASE, volume, "cat", "/openforge/note") == "whole\n"


async def test_a_volume_whose_filling_was_broken_off_is_filled_anew(docker: Docker, image: str, volume: str) -> None:
    await docker.volumes.create({"Name": volume})
    half = [{"Type": "volume", "Source": volume, "Target": "/x"}]
    writer = await docker.containers.create(
        {"Image": BASE, "Entrypoint": ["sh", "-c", "echo half >/x/note"], "HostConfig": {"Mounts": half}}
    )
    await writer.start()
    await writer.wait()
    await writer.delete()
    await fill_volume(docker, image, volume)
    assert await printed(docker, BASE, volume, "cat", "/openforge/note") == "whole\n"
